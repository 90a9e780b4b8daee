"""The two RFCs, line by line: what they ask, and what shows it.

Whether a line is kept comes from the recorded run of the tests.
"""

from collections.abc import Sequence
from html import escape
from typing import Any

from tools.data.rules_seen import EXPECTED, FAILED, Conformance
from tools.rfc import REQUIREMENTS, Requirement
from tools.servers import SERVERS
from tools.site.elements import figure, folded, table
from tools.site.errors import SiteError
from tools.site.fence_call import fence, uid
from tools.site.figures import DASH
from tools.site.rules_table import RFC, recorded

CHAPTERS = {
    ("9110", "2"): "Conformance",
    ("9110", "3"): "Terminology and core concepts",
    ("9110", "4"): "Identifiers",
    ("9110", "5"): "Fields",
    ("9110", "6"): "Message abstraction",
    ("9110", "7"): "Routing messages",
    ("9110", "8"): "Representation data",
    ("9110", "9"): "Methods",
    ("9110", "10"): "Message context",
    ("9110", "15"): "Status codes",
    ("9112", "2"): "Message",
    ("9112", "3"): "Request line",
    ("9112", "4"): "Status line",
    ("9112", "5"): "Field syntax",
    ("9112", "6"): "Message body",
    ("9112", "7"): "Transfer codings",
    ("9112", "9"): "Connection management",
    ("9112", "10"): "Messages as data",
}


def broken(run: Conformance, each: Requirement) -> list[str]:
    """The servers from 02 on that do not keep it everywhere."""
    found = {
        name for rule in each.rules for name, cell in run.rules[rule].items()
        if cell.outcome in (FAILED, EXPECTED)
    }
    return [s.name for s in SERVERS if s.step > 1 and s.name in found]


def _link(rfc: str, section: str, words: str) -> str:
    number = section.split()[0]
    return f'<a href="{RFC}{rfc}#section-{number}">{words}</a>'


def _summary(run: Conformance) -> str:
    body = []
    for (rfc, number), name in CHAPTERS.items():
        rows = [e for e in REQUIREMENTS if e.chapter == (rfc, number)]
        where = _link(rfc, number, f"RFC {rfc}, {number}")
        body.append([f"{where} {name}", *_counts(run, rows)])
    body.append(["Together", *_counts(run, REQUIREMENTS)])
    head = ["Chapter", "MUST kept", "SHOULD kept", "not for us"]
    return table(head, body, "The two RFCs, chapter by chapter")


def _counts(run: Conformance, rows: Sequence[Requirement]) -> list[str]:
    """How many MUST and SHOULD are kept by all, how many are not for us."""
    cells = []
    for must in (True, False):
        ours = [each for each in rows if each.rules and each.must == must]
        kept = sum(not each.but and not broken(run, each) for each in ours)
        cells.append(f"{kept} of {len(ours)}" if ours else DASH)
    others = sum(not each.rules for each in rows)
    return [*cells, str(others) if others else DASH]


def _lines(run: Conformance) -> str:
    """Every line with what shows it, or why it is not for us."""
    body = []
    for each in REQUIREMENTS:
        shown = ", ".join(
            f'<a href="#rule-{name}">{name}</a>' for name in each.rules
        ) or f"not for us: {escape(each.why)}"
        if names := broken(run, each):
            shown += f"; <strong>not kept by {', '.join(names)}</strong>"
        if each.but:
            shown += f"; {escape(each.but)}"
        place = f"{each.rfc}, {each.section}"
        body.append([
            _link(each.rfc, each.section, escape(place)), each.level,
            escape(each.text), shown,
        ])  # fmt: skip
    head = ["RFC", "Level", "A server has to", "Rules whose tests show it"]
    return table(head, body, "The two RFCs, line by line")


def _departure(each: Requirement) -> str:
    where = f"RFC {each.rfc}, section {each.section}"
    return (
        f"<li>{_link(each.rfc, each.section, where)}, {each.level} "
        f"{escape(each.text)}: {escape(each.but)}.</li>"
    )


def _render(chosen: dict[str, str], md: Any) -> str:
    if unnamed := {each.chapter for each in REQUIREMENTS} - set(CHAPTERS):
        raise SiteError(f"chapters without a name: {sorted(unnamed)}")
    run = recorded()
    departs = "".join(_departure(each) for each in REQUIREMENTS if each.but)
    content = (
        f'{_summary(run)}<ol class="seven-reasons">{departs}</ol>'
        f"{folded(f'All {len(REQUIREMENTS)} lines', _lines(run))}"
    )
    return figure(
        uid(md, "rfc", "lines"), "rfc", content,
        "Kept: no test of its rules failed on any server from 02 on, in the "
        "recorded run. The list says where one departs from a line, and why.",
    )  # fmt: skip


requirements = fence(_render)
