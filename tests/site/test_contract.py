"""The contract, the lessons, the RFCs and the sketches' faults as pages."""

import re
from collections.abc import Callable
from html import unescape
from pathlib import Path

import pytest

from tests.site.conftest import Render
from tools.data import rules_seen
from tools.data.results import Results
from tools.data.rules_seen import Cell, Conformance
from tools.rules import CHAPTERS, REQUIREMENTS, RULES, Rule
from tools.servers import SERVERS
from tools.site import contract
from tools.site.figures import DASH
from tools.site.inline_number import inline

Save = Callable[[Conformance], None]
LINES = "```requirements\n```"


@pytest.fixture
def run() -> Conformance:
    """The committed run, to be changed."""
    return rules_seen.load(rules_seen.FILE)


@pytest.fixture
def save(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Save:
    """Writes a run, which the pages then show."""
    file = tmp_path / "conformance.json"
    monkeypatch.setattr(rules_seen, "FILE", file)
    return lambda run: run.save(file)


def fence(render: Render, section: str) -> str:
    return render(f"```conformance\nsection: {section}\n```")


def text_of(html: str) -> str:
    return re.sub(r"\s+", " ", unescape(re.sub("<[^>]+>", " ", html))).strip()


def caption(html: str) -> str:
    return html.split("<figcaption>")[1]


def test_every_rule_is_a_row(render: Render) -> None:
    whole = "".join(fence(render, name) for name in contract.SECTIONS)
    for name in RULES:
        assert f'id="rule-{name}"' in whole, name
    assert whole.count('<th scope="row">') == len(RULES)
    assert "<code>--lame-duck</code>" in whole  # all of it is code
    for server in SERVERS:
        for reason in server.exemptions.values():
            assert f"{reason}." in text_of(whole)


def test_cells_say_what_was_seen(
    run: Conformance, save: Save, render: Render
) -> None:
    run.rules["help"] |= {
        "02": Cell(passed=1, failed=2),
        "03": Cell(skipped=1, why=["no <strace>"]),
        "03-pool": Cell(passed=1, skipped=2, why=["a", "b"]),
    }
    del run.rules["help"]["04"]
    save(run)
    html = fence(render, "running")
    (row,) = re.findall(r'(?s)<span id="rule-help">.*?</tr>', html)
    cells = re.findall("<td>(.*?)</td>", row)[:5]
    assert [text_of(cell) for cell in cells] == [
        "yes", "no 1", "not tried 2", "yes 3", "\u2013 not for it",
    ]  # fmt: skip
    links = re.findall(r'href="#(why-[^"]+)"', row)
    notes = dict(re.findall(r'<li id="([^"]+)">(.*?)</li>', html))
    said = [notes[link] for link in links]
    assert "2 of 3 tests failed." in said[0]
    assert "not tried there, no &lt;strace&gt;." in said[1]
    assert "2 of 3 tests left out, a; b." in said[2]
    assert "Not tried: " in caption(html) and "\u2013: " in caption(html)
    assert "Exempt: " not in caption(html)  # no cell says it


def test_a_rule_for_some_has_columns_for_these(render: Render) -> None:
    assert re.findall(
        r'<th scope="col">(.*?)</th>', fence(render, "files")
    ) == ["Rule", "07", "07-emulated"]


@pytest.mark.parametrize(("text", "links"), [
    ("RFC 9110, sections 5.6.2 and 9.1", {
        "RFC 9110, sections 5.6.2": "/rfc9110#section-5.6.2",
        "9.1": "/rfc9110#section-9.1"}),
    ("man 2 bind, EADDRINUSE; contract, Running",
     {"bind(2)": "man2/bind.2.html"}),
    ("man 2 PR_SET_PDEATHSIG; PEP 703", {
        "PR_SET_PDEATHSIG(2)": "man2/PR_SET_PDEATHSIG.2const.html",
        "PEP 703": "peps.python.org/pep-0703/"}),
    ("contract, Running", {}),
])
def test_where_to_read(text: str, links: dict[str, str]) -> None:
    html = contract.where(Rule("", "", text))
    found = re.findall(r'href="https://([^"]+)">(.*?)</a>', html)
    assert [words for _, words in found] == list(links)
    for (address, _), end in zip(found, links.values(), strict=True):
        assert address.endswith(end)
    assert (text_of(html) == "") == (not links)


def test_captions_say_which_run(
    run: Conformance, save: Save, render: Render
) -> None:
    run.commit, run.machine.cpu = "", "A & B"
    run.totals = {"passed": 1234, "expected": 5, "skipped": 6, "failed": 0}
    save(run)
    said = caption(render("```lessons\n```"))
    assert f"{run.started[:10]}, no commit, {run.machine.python}" in said
    assert "A &amp; B" in said and f"<code>{run.command}</code>" in said
    assert "1,234 passed, 5 failed as they must, 6 were skipped." in said
    said = caption(fence(render, "engines"))
    rules = [n for n in RULES if RULES[n].part == "Engines and workers"]
    tests = sum(c.tests for n in rules for c in run.rules[n].values())
    assert f"{tests} tests of these {len(rules)} rules" in said


def test_a_new_server_is_left_out_until_it_is_recorded(
    run: Conformance, save: Save, render: Render
) -> None:
    for cells in (*run.rules.values(), *run.lessons.values()):
        cells.pop("04", None)
    save(run)
    for html in (fence(render, "refusing"), render("```lessons\n```")):
        assert re.search(">03<", html) and not re.search(">04<", html)


def test_a_run_that_cannot_be_shown_ends_the_build(
    run: Conformance, save: Save, render: Render
) -> None:
    with pytest.raises(Exception, match=r"cannot be read: .*: record again"):
        fence(render, "refusing")
    run.rules["nul"]["02"] = Cell(expected=1)
    save(run)
    with pytest.raises(Exception, match=r"02 is not exempt from .* 'nul'"):
        fence(render, "refusing")
    rules_seen.FILE.write_text('{"schema": 1, "rules": 3}')
    with pytest.raises(Exception, match="is not a recorded test run"):
        render("```lessons\n```")
    with pytest.raises(Exception, match="no section is 'none'"):
        fence(render, "none")


# The two RFCs, line by line -------------------------------------------------


def counts(html: str) -> list[str]:
    """What the summary says: MUST kept, SHOULD kept, not for us."""
    (row,) = re.findall('(?s)">Together</th>(.*?)</tr>', html)
    return [text_of(cell) for cell in re.findall("<td>(.*?)</td>", row)]


def test_every_line_of_the_rfcs_is_a_row(render: Render) -> None:
    html = render(LINES)
    rows = html.count('<th scope="row">')
    assert rows == len(CHAPTERS) + 1 + len(REQUIREMENTS)
    assert {each.chapter for each in REQUIREMENTS} == set(CHAPTERS)
    for each in REQUIREMENTS:
        assert each.why in text_of(html) and each.but in text_of(html)
    ours = [each for each in REQUIREMENTS if each.rules]
    musts = sum(each.must for each in ours)
    shoulds = len(ours) - musts
    departs = sum(bool(each.but) for each in ours)
    assert counts(html) == [
        f"{musts} of {musts}", f"{shoulds - departs} of {shoulds}",
        str(len(REQUIREMENTS) - len(ours)),
    ]  # fmt: skip


@pytest.mark.parametrize(("where", "kept"), [("04", False), ("01", True)])
def test_what_a_test_found_broken_is_not_kept(
    run: Conformance, save: Save, render: Render, where: str, kept: bool
) -> None:
    save(run)
    before = counts(render(LINES))
    run.rules["date"][where] = Cell(passed=1, failed=1)
    save(run)
    html = render(LINES)
    assert (counts(html) == before) == kept
    assert ("not kept by 04" in html) != kept


# The sketches ---------------------------------------------------------------


@pytest.mark.parametrize("number", ["01", "03", "07"])
def test_each_broken_rule_once(render: Render, number: str) -> None:
    html = render(f"```breaks\nsketch: {number}\n```")
    run = rules_seen.load(rules_seen.SKETCHED)
    broken = rules_seen.broken(run, f"{number}-sketch")
    named = re.findall(r'"\.\./reference/contract\.html#rule-([^"]+)"', html)
    assert sorted(named) == sorted(broken)
    assert f"it breaks {len(broken)} and keeps" in html
    first = re.findall("<strong>(.+?)</strong>", html)
    # The library waits for the whole head, and pipelines are not for it.
    lacks = {"Half a request", "Two requests at once"}
    assert first == [
        name for name in contract.USUAL if number != "01" or name not in lacks
    ]


def test_a_sketch_that_was_not_measured_is_a_dash(
    reference: Results, change: Callable[[Results], None]
) -> None:
    name = "02-sketch.classic.requests_per_second"
    assert inline(name) == DASH
    assert inline(f"{name} / {name}") == DASH
    (point,) = reference.suite("classic", "02")
    point.server = "02-sketch"
    change(reference)
    assert "<data" in inline(name)
