"""The two RFCs, line by line, with what a recorded run says of them."""

import re
from pathlib import Path

import pytest

from tests.site.conftest import Render
from tests.site.test_rules_table import seen, text_of
from tools.data.rules_seen import Cell
from tools.rfc import REQUIREMENTS
from tools.rules import RULES
from tools.site import rfc_table

FENCE = "```requirements\n```"


@pytest.fixture(autouse=True)
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recorded run in which all is well."""
    file = tmp_path / "conformance.json"
    monkeypatch.setenv("SEVEN_CONFORMANCE", str(file))
    seen().save(file)
    return file


def counts(html: str, row: str) -> list[str]:
    """What the summary says: MUST kept, SHOULD kept, not for us."""
    found = re.search(f'<tr><th scope="row">{row}</th>(.*?)</tr>', html)
    assert found, row
    return [text_of(cell) for cell in re.findall("<td>(.*?)</td>", found[1])]


def test_every_line_is_a_row(render: Render) -> None:
    html = render(FENCE)
    rows = html.count('<th scope="row">')
    assert rows == len(rfc_table.CHAPTERS) + 1 + len(REQUIREMENTS)
    assert set(re.findall('"#rule-([^"]+)"', html)) <= set(RULES)
    for each in REQUIREMENTS:
        assert each.why in text_of(html) and each.but in text_of(html)


def test_the_summary_counts(render: Render) -> None:
    ours = [each for each in REQUIREMENTS if each.rules]
    musts = sum(each.must for each in ours)
    departs = sum(bool(each.but) for each in ours)
    shoulds = len(ours) - musts
    assert counts(render(FENCE), "Together") == [
        f"{musts} of {musts}", f"{shoulds - departs} of {shoulds}",
        str(len(REQUIREMENTS) - len(ours)),
    ]  # fmt: skip


@pytest.mark.parametrize(("where", "kept"), [("04", False), ("01", True)])
def test_what_a_test_found_broken_is_not_kept(
    file: Path, render: Render, where: str, kept: bool
) -> None:
    before = counts(render(FENCE), "Together")
    run = seen()
    run.rules["date"][where] = Cell(passed=1, failed=1)
    run.save(file)
    html = render(FENCE)
    assert (counts(html, "Together") == before) == kept
    assert ("not kept by 04" in html) != kept


def test_a_chapter_without_a_name_ends_the_build(
    render: Render, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delitem(rfc_table.CHAPTERS, ("9112", "6"))
    with pytest.raises(Exception, match="chapters without a name"):
        render(FENCE)
