"""The contract, rule by rule, as a recorded run of the tests found it.

The environment can name another recording: SEVEN_CONFORMANCE.
"""

import os
import re
from functools import lru_cache
from html import escape
from pathlib import Path
from typing import Any

from tools.common.files import DataError
from tools.data import conformance as recording
from tools.data.conformance import (
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
from tools.site import options
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
    named = os.environ.get("SEVEN_CONFORMANCE")
    file = Path(named) if named else recording.FILE
    try:
        stamp = file.stat().st_mtime_ns
    except OSError as error:
        raise SiteError(
            f"{file.name} cannot be read: {error.strerror}: {AGAIN}"
        ) from error
    try:
        run = _read(file, stamp)
    except DataError as error:
        raise SiteError(str(error)) from error
    for lack in recording.lacks(run, RULES, SERVERS):
        raise SiteError(f"{file.name} has {lack}: {AGAIN}")
    return run


@lru_cache(maxsize=4)
def _read(file: Path, stamp: int) -> Conformance:
    del stamp  # part of the key: a file that changed is read again
    return recording.load(file)


def check_rules(run: Conformance, names: list[str]) -> None:
    """The run has to say of exemptions what the list of servers says."""
    for name in names:
        for server in SERVERS:
            cell = run.rules[name].get(server.name)
            if cell is None or cell.outcome == SKIPPED:
                continue
            exempt = name in server.exemptions
            if exempt != (cell.outcome == EXPECTED):
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
            for side, answer in sides(lesson, value).items():
                where = place(server.name, side)
                cell = run.lessons[lesson][where]
                if cell.outcome != (PASSED if answer == YES else EXPECTED):
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
    machine = run.machine
    return (
        f"Seen in the test run of {escape(run.started[:10])}, "
        f"{escape(commit)}, {escape(machine.python)}, "
        f"{escape(machine.kernel)}"
    )


def _render(text: str, md: Any) -> str:
    """The rules of one section, a row each, and a column a server.

    ``servers`` names some of them; else all for which it has a rule.
    """
    chosen = options.parse(text, ["section"], ["servers"])
    section = chosen["section"]
    if section not in SECTIONS:
        known = ", ".join(SECTIONS)
        raise SiteError(f"no section is {section!r}; there are {known}")
    run = recorded()
    rules = {n: r for n, r in RULES.items() if r.part == SECTIONS[section]}
    check_rules(run, list(rules))
    shown = [
        server
        for server in options.servers(chosen.get("servers", "all"))
        if "servers" in chosen
        or any(server.name in run.rules[name] for name in rules)
    ]
    notes = Notes(uid(md, "why", section))
    body = []
    for name, rule in rules.items():
        row = uid(md, "rule", name)
        body.append([
            f'<span id="{row}">{_marked(sentence(rule.text))}</span>'
            f"{_where(rule)}",
            *(
                _cell(run.rules[name].get(server.name), server, name, notes)
                for server in shown
            ),
        ])
    head = ["Rule", *(server.name for server in shown)]
    label = f"{SECTIONS[section]}: what each server does"
    tests = sum(
        cell.tests for name in rules for cell in run.rules[name].values()
    )
    return (
        f'<figure class="seven-seen" id="{uid(md, "seen", section)}">'
        f"{table(head, body, label)}{notes.html()}<figcaption>"
        f"{_key(body)}"
        f"{_when(run)}: {tests:,} tests of these {len(rules)} rules."
        "</figcaption></figure>"
    )


def _key(body: list[list[str]]) -> str:
    """What the less common words of these cells mean. HTML."""
    cells = [cell for _, *row in body for cell in row]
    return "".join(
        f"{word}: {meaning}. "
        for word, (mark, meaning) in KEY.items()
        if any(mark in cell for cell in cells)
    )


def sentence(text: str) -> str:
    """A text with a capital letter, if it begins with a letter."""
    return text[:1].upper() + text[1:]


def _marked(text: str) -> str:
    """A rule's text with its options as code. HTML."""
    return re.sub(r"--\w+", r"<code>\g<0></code>", escape(text))


class Notes:
    """Why a rule does not hold somewhere: what stands below a table."""

    def __init__(self, stem: str) -> None:
        self.stem = stem
        self.items: list[str] = []

    def link(self, word: str, css: str, note: str) -> str:
        """A cell's word that leads to its note. HTML."""
        self.items.append(note)
        number = len(self.items)
        return (
            f'<a class="{css}" href="#{self.stem}-{number}">{word}'
            f"&nbsp;<sup>{number}</sup></a>"
        )

    def html(self) -> str:
        """The list; nothing if there are no notes."""
        if not self.items:
            return ""
        rows = "".join(
            f'<li id="{self.stem}-{number}">{item}</li>'
            for number, item in enumerate(self.items, 1)
        )
        return f'<ol class="seven-reasons">{rows}</ol>'


def _cell(
    cell: Cell | None, server: Server, name: str, notes: Notes
) -> str:
    """What the tests of one rule did on one server. HTML."""
    if cell is None:
        return NOT_FOR_IT
    about = f"<strong>{server.name}</strong>, {_marked(RULES[name].text)}: "
    if cell.outcome == EXPECTED:
        note = about + escape(server.exemptions[name]) + "."
        return notes.link("exempt", "seven-exempt", note)
    if cell.outcome == FAILED:
        note = f"{about}{cell.failed} of {cell.tests} tests failed."
        return notes.link("no", "seven-failed", note)
    if cell.outcome == SKIPPED:
        note = f"{about}not tried there, {escape('; '.join(cell.why))}."
        return notes.link("not tried", "seven-exempt", note)
    if cell.skipped:
        note = (
            f"{about}{cell.skipped} of {cell.tests} tests left out, "
            f"{escape('; '.join(cell.why))}."
        )
        return notes.link("yes", "seven-yes", note)
    return '<span class="seven-yes">yes</span>'


def _where(rule: Rule) -> str:
    """Where to read about a rule, with links. HTML; "" if it is here."""
    parts = [
        _linked(part.strip())
        for part in rule.where.split(";")
        if not part.strip().startswith("contract,")
    ]
    return f"<small>{'; '.join(parts)}</small>" if parts else ""


def _linked(place_to_read: str) -> str:
    """A section of an RFC, a man page or a PEP as a link. HTML."""
    text = escape(place_to_read)
    if found := re.match(r"(RFC (\d+), sections? )(.*)", text):
        address = f"{RFC}{found[2]}#section-"
        first, *rest = re.split(r"(\d+(?:\.\d+)*)", found[3])[1:]
        linked = _a(address + first, found[1] + first)
        for word in rest:
            number = word[:1].isdigit()
            linked += _a(address + word, word) if number else word
        return linked
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


conformance = fence(_render)
