"""The contract, the table of lessons and the RFCs, from a recorded run."""

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

from tests.site.conftest import Render
from tools.data.made import everything
from tools.data.results import Machine
from tools.data.rules_seen import Cell, Conformance, place, sides
from tools.rfc import REQUIREMENTS
from tools.rules import RULES
from tools.servers import LESSONS, NO, SERVERS
from tools.site import rfc_table, rules_table

Save = Callable[[Conformance], None]
ONLY_07 = ("Files", "Engines and workers")


def seen() -> Conformance:
    """A run in which everything was as the list of servers says."""
    run = Conformance(
        "./test.sh --conformance <here>", "2001-02-03T04:05:06+00:00",
        "abc+", Machine("A & B", 2, 1, "Linux 6", "CPython 3", 1024), {},
        60.0, {"passed": 1234, "failed": 0, "expected": 5, "skipped": 6},
    )
    for name, rule in RULES.items():
        special = rule.part in ONLY_07 or rule.text.startswith("07:")
        run.rules[name] = {
            server.name: Cell(expected=1)
            if name in server.exemptions
            else Cell(passed=2)
            for server in SERVERS
            if server.step == 7 or not special
        }
    for name in LESSONS:
        run.lessons[name] = {
            place(server.name, side): Cell(expected=1)
            if response == NO
            else Cell(passed=1)
            for server in SERVERS
            for side, response in sides(name, server.lessons[name]).items()
        }
    return run


@pytest.fixture
def save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Save:
    """Writes a run, which the pages then show."""
    file = tmp_path / "conformance.json"
    monkeypatch.setenv("SEVEN_CONFORMANCE", str(file))
    seen().save(file)
    return lambda run: run.save(file)


def fence(render: Render, section: str) -> str:
    return render(f"```conformance\nsection: {section}\n```")


def text_of(html: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub("<[^>]+>", " ", html)))


def test_every_rule_is_a_row(save: Save, render: Render) -> None:
    whole = "".join(fence(render, name) for name in rules_table.SECTIONS)
    for name in RULES:
        assert f'id="rule-{name}"' in whole, name
    assert whole.count('<th scope="row">') == len(RULES)
    assert "<code>--lame-duck</code>" in whole  # all of it is code
    parts = {rule.part for rule in RULES.values()}
    assert parts == set(rules_table.SECTIONS.values())


def test_cells_say_what_was_seen(save: Save, render: Render) -> None:
    run = seen()
    run.rules["help"]["02"] = Cell(passed=1, failed=2)
    run.rules["help"]["03"] = Cell(skipped=1, why=["no <strace>"])
    run.rules["help"]["04"] = Cell(passed=1, skipped=2, why=["a", "b"])
    save(run)
    html = fence(render, "running")
    (row,) = re.findall(r'<tr><th[^>]*><span id="rule-help">.*?</tr>', html)
    cells = re.findall("<td>(.*?)</td>", row)[:4]
    assert [text_of(cell).strip(" 1234") for cell in cells] == [
        "yes", "no", "not tried", "yes",
    ]  # fmt: skip
    assert "2 of 3 tests failed." in html
    assert "not tried there, no &lt;strace&gt;." in html
    assert "2 of 3 tests left out, a; b." in html


def test_words_are_explained_below_the_tables_that_have_them(
    save: Save, render: Render
) -> None:
    run = seen()
    run.rules["help"]["03"] = Cell(skipped=1, why=["no strace"])
    save(run)
    words = ("Exempt: ", "Not tried: ", "\u2013: ")
    for section, there in (
        ("running", (False, True, False)),
        ("refusing", (True, False, False)),
        ("faults", (True, False, True)),
    ):
        html = fence(render, section)
        (caption,) = re.findall("<figcaption>(.*?)</figcaption>", html)
        assert tuple(word in caption for word in words) == there, section


def test_reasons_are_there_without_a_script(
    save: Save, render: Render
) -> None:
    html = fence(render, "refusing")
    links = re.findall(r'href="#(why-[^"]+)"', html)
    notes = dict(re.findall(r'<li id="([^"]+)">(.*?)</li>', html))
    assert links == list(notes), "each cell leads to a note of its own"
    text = text_of(" ".join(notes.values()))
    rules = {n for n, r in RULES.items() if r.part == "Refusing"}
    for server in SERVERS:
        for name, reason in server.exemptions.items():
            assert (f"{reason}." in text) == (name in rules), name


def test_what_is_for_some_is_shown_for_some(
    save: Save, render: Render
) -> None:
    files = fence(render, "files")
    assert re.findall(r'<th scope="col">(.*?)</th>', files) == [
        "Rule", "07", "07-emulated",
    ]  # fmt: skip
    faults = fence(render, "faults")
    assert faults.count("not for it") == 2 * (len(SERVERS) - 2)


@pytest.mark.parametrize(("rule", "links"), [
    ("bad-method", ["rfc/rfc9110#section-5.6.2", "rfc/rfc9110#section-9.1"]),
    ("keep-10", ["rfc/rfc9112#section-9.3", "rfc/rfc2068#section-19.7.1"]),
    ("file-head", ["#section-8.8", "#section-9.3.2", "#section-14.3"]),
    ("port-in-use", ["man2/bind.2.html"]),
    ("parent-killed", ["PR_SET_PDEATHSIG.2const.html", "pipe.2.html"]),
    ("worker-kind", ["peps.python.org/pep-0703/"]),
    ("help", []),
])
def test_where_to_read(
    save: Save, render: Render, rule: str, links: list[str]
) -> None:
    names = {part: name for name, part in rules_table.SECTIONS.items()}
    html = fence(render, names[RULES[rule].part])
    (head,) = re.findall(rf'<span id="rule-{rule}">.*?</th>', html)
    found = re.findall(r'href="([^"]+)"', head)
    assert len(found) == len(links)
    for address, end in zip(found, links, strict=True):
        assert address.startswith("https://") and address.endswith(end)
    # Its words are those of the rule, short of the names of man pages.
    if "RFC" in RULES[rule].where:
        assert RULES[rule].where.split(";")[0] in text_of(head).replace(
            " ,", ","
        ).replace("  ", " ")


def test_captions_say_which_run(save: Save, render: Render) -> None:
    run = seen()
    save(run)
    html = render("```lessons\n```")
    (caption,) = re.findall("<figcaption>(.*?)</figcaption>", html)
    assert "<code>./test.sh --conformance &lt;here&gt;</code>" in caption
    assert "A &amp; B, 2 cores" in caption
    assert "1,234 passed, 5 failed as they must, 6 were" in caption
    html = fence(render, "running")
    (short,) = re.findall("<figcaption>(.*?)</figcaption>", html)
    rules = sum(rule.part == "Running" for rule in RULES.values())
    tests = 2 * rules * len(SERVERS)
    assert f"{tests} tests of these {rules} rules" in short
    for each in (caption, short):
        assert "2001-02-03, commit abc+, CPython 3, Linux 6" in each
    run.commit = ""
    save(run)
    assert "2001-02-03, no commit" in fence(render, "running")


@pytest.mark.parametrize(("table", "name", "where", "cell", "words"), [
    # As pytest reports a strict xfail that passes.
    ("rules", "nul", "01", Cell(failed=1), "exempts 01 .* 'nul'.*failed"),
    ("rules", "nul", "01", Cell(passed=1), "exempts 01 .* 'nul'.*passed"),
    ("rules", "nul", "02", Cell(expected=1), "does not exempt 02 .* 'nul'"),
    ("rules", "page", "06-protocol", None,
     "nothing about the rule 'page' for 06-protocol: record again with"),
    ("lessons", "silent", "03", Cell(failed=1), "'yes' .* for 03; .*: failed"),
    ("lessons", "silent", "01", Cell(failed=1), "'no' .* for 01; .*: failed"),
    ("lessons", "silent", "01", Cell(passed=1), "'no' .* for 01; .*: passed"),
    ("lessons", "cores", "07", Cell(expected=1),
     "'yes' .* for 07; .*: expected"),
    ("lessons", "batching", "07", Cell(skipped=1, why=["no strace"]),
     r"'yes' .* for 07; .*: skipped \(no strace\)"),
    ("lessons", "threads", "06-executor above", Cell(expected=1),
     "'up to the pool' .* for 06-executor above; .*: expected"),
    ("lessons", "silent", "03-pool above", None,
     "nothing about the lesson 'silent' for 03-pool above"),
])
def test_a_run_that_does_not_fit_ends_the_build(
    save: Save, render: Render, table: str, name: str, where: str,
    cell: Cell | None, words: str,
) -> None:
    body = {"rules": "conformance\nsection: refusing", "lessons": "lessons"}
    page = f"```{body[table]}\n```"
    render(page)
    run = seen()
    cells = getattr(run, table)[name]
    if cell:
        cells[where] = cell
    else:
        del cells[where]
    save(run)
    with pytest.raises(Exception, match=f"(?s)cannot be made: .*{words}"):
        render(page)
    if table == "lessons" and cell and where != "03":
        render("```lessons\nservers: 03\n```")  # only what is shown counts


def test_a_rule_without_tests_ends_the_build(
    save: Save, render: Render
) -> None:
    run = seen()
    del run.rules["help"]
    save(run)
    with pytest.raises(Exception, match="nothing about the rule 'help': rec"):
        fence(render, "refusing")


@pytest.mark.parametrize(("text", "words"), [
    (None, "cannot be read: No such file .*: record again"),
    ("{}", "has schema None, this version reads 1: record again"),
    ("nonsense", "is not a recorded test run"),
    ("[]", "is not a recorded test run"),
    ('{"schema": 1, "rules": 3}', "is not a recorded test run"),
])
def test_no_run_ends_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, render: Render,
    text: str | None, words: str,
) -> None:
    file = tmp_path / "conformance.json"
    monkeypatch.setenv("SEVEN_CONFORMANCE", str(file))
    if text is not None:
        file.write_text(text)
    for body in ("conformance\nsection: running", "lessons"):
        with pytest.raises(Exception, match=f"conformance.json {words}"):
            render(f"```{body}\n```")


def test_a_new_server_is_left_out_until_it_is_recorded(
    save: Save, render: Render
) -> None:
    run = seen()
    for cells in (*run.rules.values(), *run.lessons.values()):
        cells.pop("04", None)
    save(run)
    for html in (fence(render, "refusing"), render("```lessons\n```")):
        assert re.search(">03<", html) and not re.search(">04<", html)


def test_the_committed_run_fits_and_nothing_failed() -> None:
    run = rules_table.recorded()
    assert rules_table.known(run, SERVERS) == list(SERVERS)
    rules_table.check_rules(run, list(RULES))
    rules_table.check_lessons(run, list(SERVERS))
    failed = [
        (name, where)
        for table in (run.rules, run.lessons)
        for name, cells in table.items()
        for where, cell in cells.items()
        if cell.failed
    ]
    assert not failed
    (made,) = (each for each in everything() if each.name == "conformance")
    typed = run.command.replace(" --all", "")  # --conformance means it
    assert typed.removesuffix(" -v") == made.command  # -v: says more


# The two RFCs, line by line -------------------------------------------------

LINES = "```requirements\n```"


def counts(html: str) -> list[str]:
    """What the summary says: MUST kept, SHOULD kept, not for us."""
    (row,) = re.findall('<tr><th scope="row">Together</th>(.*?)</tr>', html)
    return [text_of(cell) for cell in re.findall("<td>(.*?)</td>", row)]


def test_every_line_of_the_rfcs_is_a_row(save: Save, render: Render) -> None:
    html = render(LINES)
    rows = html.count('<th scope="row">')
    assert rows == len(rfc_table.CHAPTERS) + 1 + len(REQUIREMENTS)
    assert set(re.findall('"#rule-([^"]+)"', html)) <= set(RULES)
    for each in REQUIREMENTS:
        assert each.why in text_of(html) and each.but in text_of(html)


def test_the_summary_counts(save: Save, render: Render) -> None:
    ours = [each for each in REQUIREMENTS if each.rules]
    musts = sum(each.must for each in ours)
    departs = sum(bool(each.but) for each in ours)
    shoulds = len(ours) - musts
    assert counts(render(LINES)) == [
        f"{musts} of {musts}", f"{shoulds - departs} of {shoulds}",
        str(len(REQUIREMENTS) - len(ours)),
    ]  # fmt: skip


@pytest.mark.parametrize(("where", "kept"), [("04", False), ("01", True)])
def test_what_a_test_found_broken_is_not_kept(
    save: Save, render: Render, where: str, kept: bool
) -> None:
    before = counts(render(LINES))
    run = seen()
    run.rules["date"][where] = Cell(passed=1, failed=1)
    save(run)
    html = render(LINES)
    assert (counts(html) == before) == kept
    assert ("not kept by 04" in html) != kept


def test_a_chapter_without_a_name_ends_the_build(
    save: Save, render: Render, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(rfc_table.CHAPTERS, ("9112", "6"))
    with pytest.raises(Exception, match="chapters without a name"):
        render(LINES)
