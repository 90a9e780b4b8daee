"""The contract, rule by rule, as a recorded run of the tests found it.

The environment can name another recording: SEVEN_CONFORMANCE.
"""

import os
import re
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from tools.common.files import DataError
from tools.data import rules_seen
from tools.data.rules_seen import (
    AGAIN,
    EXPECTED,
    FAILED,
    PASSED,
    SKIPPED,
    Cell,
    Conformance,
    place,
    sides,
)
from tools.rules import RULES, Rule
from tools.servers import LESSONS, SERVERS, YES, Server
from tools.site.elements import table
from tools.site.errors import SiteError
from tools.site.fence_call import fence, uid

SECTIONS = {  # name in a fence -> part of tools/rules.py
    "running": "Running",
    "answering": "Answering",
    "refusing": "Refusing",
    "faults": "Standing up to clients",
    "files": "Files",
    "engines": "Engines and workers",
}
RFC = "https://www.rfc-editor.org/rfc/rfc"
MAN = "https://man7.org/linux/man-pages/man"
PEP = "https://peps.python.org/pep-"
NOT_FOR_IT = (
    '<span class="seven-no"><span aria-hidden="true">\u2013</span>'
    '<span class="seven-unseen">not for it</span></span>'
)
KEY = {  # word of a cell -> what is in its HTML, and what it means
    "Exempt": (
        ">exempt&nbsp;",
        "the test runs there and has to fail, the note says why",
    ),
    "Not tried": (
        ">not tried&nbsp;", "no test could run there, the note says why",
    ),
    "\u2013": (NOT_FOR_IT, "the rule is not for this server"),
}  # fmt: skip
TOTALS = {  # outcome -> how a caption says it
    PASSED: "passed",
    EXPECTED: "failed as they must",
    SKIPPED: "were skipped",
    FAILED: "failed",
}


def recorded() -> Conformance:
    """The recorded run. Raises SiteError if it is not of these servers."""
    file = Path(os.environ.get("SEVEN_CONFORMANCE") or rules_seen.FILE)
    try:
        run = rules_seen.load(file)
    except DataError as error:
        raise SiteError(f"{error}: {AGAIN}") from error
    for lack in rules_seen.lacks(run, RULES, known(run, SERVERS)):
        raise SiteError(f"{file.name} has {lack}: {AGAIN}")
    return run


def known(run: Conformance, servers: Sequence[Server]) -> list[Server]:
    """Those that were there when it was recorded: the others are new."""
    return [
        server for server in servers
        if any(server.name in cells for cells in run.rules.values())
    ]  # fmt: skip


def check_rules(run: Conformance, names: list[str]) -> None:
    """The run has to say of exemptions what the list of servers says."""
    python = [int(part) for part in re.findall(r"\d+", run.machine.python)]
    for name in names:
        for server in known(run, SERVERS):
            cell = run.rules[name].get(server.name, Cell())
            exempt = server.is_exempt(name, python)
            seen = cell.outcome == EXPECTED
            if cell.outcome != SKIPPED and exempt != seen:
                words = "exempts" if exempt else "does not exempt"
                raise SiteError(
                    f"the list of servers {words} {server.name} from the "
                    f"rule {name!r}; in the recorded run its tests say: "
                    f"{cell.outcome}. {AGAIN}"
                )


def check_lessons(run: Conformance, servers: list[Server]) -> None:
    """Each cell of the table of lessons must have been seen."""
    for lesson in LESSONS:
        for server in servers:
            value = server.lessons[lesson]
            for side, response in sides(lesson, value).items():
                where = place(server.name, side)
                cell = run.lessons[lesson][where]
                if cell.outcome != (PASSED if response == YES else EXPECTED):
                    why = f" ({', '.join(cell.why)})" if cell.why else ""
                    raise SiteError(
                        f"the table of lessons says {value!r} about "
                        f"{lesson!r} for {where}; in the recorded run the "
                        f"test says: {cell.outcome}{why}. {AGAIN}"
                    )


def caption(run: Conformance) -> str:
    """When, where and how the run was made, and how it ended. HTML."""
    counts = ", ".join(
        f"{run.totals[key]:,} {words}"
        for key, words in TOTALS.items()
        if run.totals.get(key)
    )
    return (
        f"{_when(run)}, {escape(run.machine.cpu)}, {run.machine.cores} "
        f"cores, <code>{escape(run.command)}</code>. "
        f"Of all its tests {counts}."
    )


def _when(run: Conformance) -> str:
    commit = f"commit {run.commit}" if run.commit else "no commit"
    facts = [run.started[:10], commit, run.machine.python, run.machine.kernel]
    return f"Seen in the test run of {escape(', '.join(facts))}"


def _render(chosen: dict[str, str], md: Any) -> str:
    """The rules of one section, a row each, and a column a server.

    Only servers for which it has a rule have one.
    """
    section = chosen["section"]
    if section not in SECTIONS:
        known = ", ".join(SECTIONS)
        raise SiteError(f"no section is {section!r}; there are {known}")
    run = recorded()
    part = {n: r for n, r in RULES.items() if r.part == SECTIONS[section]}
    check_rules(run, list(part))
    shown = [
        server for server in SERVERS
        if any(server.name in run.rules[name] for name in part)
    ]
    stem = uid(md, "why", section)
    notes: list[str] = []  # why a rule does not hold somewhere
    body = []
    for name, rule in part.items():
        row = [
            f'<span id="{uid(md, "rule", name)}">'
            f"{_marked(rule.text[:1].upper() + rule.text[1:])}</span>"
            f"{_where(rule)}"
        ]
        for server in shown:
            cell = run.rules[name].get(server.name)
            word, kind, why = _cell(cell, server, name)
            if why:
                number = f"{stem}-{len(notes) + 1}"
                notes.append(
                    f'<li id="{number}"><strong>{server.name}</strong>, '
                    f"{_marked(rule.text)}: {escape(why)}.</li>"
                )
                word = (
                    f'<a class="{kind}" href="#{number}">{word}'
                    f"&nbsp;<sup>{len(notes)}</sup></a>"
                )
            row.append(word)
        body.append(row)
    seen = "".join(cell for _, *cells in body for cell in cells)
    key = "".join(
        f"{word}: {meaning}. "
        for word, (mark, meaning) in KEY.items() if mark in seen
    )
    head = ["Rule", *(server.name for server in shown)]
    label = f"{SECTIONS[section]}: what each server does"
    reasons = f'<ol class="seven-reasons">{"".join(notes)}</ol>'
    tests = sum(
        cell.tests for name in part for cell in run.rules[name].values()
    )
    return (
        f'<figure class="seven-seen" id="{uid(md, "seen", section)}">'
        f"{table(head, body, label)}{reasons if notes else ''}<figcaption>"
        f"{key}{_when(run)}: {tests:,} tests of these {len(part)} rules."
        "</figcaption></figure>"
    )


def _marked(text: str) -> str:
    """A rule's text with its options as code. HTML."""
    return re.sub(r"--\w[\w-]*", r"<code>\g<0></code>", escape(text))


def _cell(
    cell: Cell | None, server: Server, name: str
) -> tuple[str, str, str]:
    """What the tests of a rule did on a server: word, class, and why."""
    if cell is None:
        return NOT_FOR_IT, "", ""
    reasons = "; ".join(cell.why)
    if cell.outcome == EXPECTED:
        return "exempt", "seven-exempt", server.exemptions[name]
    if cell.outcome == FAILED:
        why = f"{cell.failed} of {cell.tests} tests failed"
        return "no", "seven-failed", why
    if cell.outcome == SKIPPED:
        return "not tried", "seven-exempt", f"not tried there, {reasons}"
    if cell.skipped:
        why = f"{cell.skipped} of {cell.tests} tests left out, {reasons}"
        return "yes", "seven-yes", why
    return '<span class="seven-yes">yes</span>', "", ""


def _where(rule: Rule) -> str:
    """Where to read about a rule, with links. HTML; "" if it is here."""
    parts = [
        _linked(escape(part))
        for part in re.split(r"; *", rule.where)
        if not part.startswith("contract,")
    ]
    return f"<small>{'; '.join(parts)}</small>" if parts else ""


def _linked(text: str) -> str:
    """A section of an RFC, a man page or a PEP as a link. HTML."""
    if found := re.match(r"RFC (\d+), sections? ", text):
        begin, address = found[0], f"{RFC}{found[1]}#section-"
        sections = re.sub(
            r"\d+(\.\d+)*",
            lambda number: _a(address + number[0], number[0]),
            text[len(begin):],
        )
        # The first link takes in the name of the RFC.
        return re.sub("(<a [^>]+>)", rf"\g<1>{begin}", sections, count=1)
    if found := re.match(r"man (\d) (\w+)", text):
        chapter, name = found[1], found[2]
        kind = f"{chapter}const" if name.isupper() else chapter
        page = f"{MAN}{chapter}/{name}.{kind}.html"
        return _a(page, f"{name}({chapter})") + text[found.end():]
    if found := re.fullmatch(r"PEP (\d+)", text):
        return _a(f"{PEP}{int(found[1]):04}/", text)
    return text


def _a(address: str, words: str) -> str:
    return f'<a href="{address}">{words}</a>'


rules = fence(_render, "section")
