"""The contract, as recorded runs of the tests found it.

Its rules, its lessons, the lines of the two RFCs, and what a sketch cannot
do: each a fence of its own. That the committed runs say what the lists of
rules and servers say is a test (tests/test_rules.py).
"""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup, escape

from tools.common.files import DataError
from tools.data import rules_seen
from tools.data.rules_seen import AGAIN, Cell, Conformance
from tools.rules import CHAPTERS, REQUIREMENTS, RULES, Requirement, Rule
from tools.servers import LESSONS, SERVERS, Server
from tools.site import options
from tools.site.errors import SiteError
from tools.site.fence_call import fence, uid
from tools.site.figures import DASH
from tools.site.template import html

SECTIONS = {  # name in a fence -> part of tools/rules.toml
    "running": "Running",
    "answering": "Answering",
    "refusing": "Refusing",
    "faults": "Standing up to clients",
    "files": "Files",
    "engines": "Engines and workers",
}


def recorded(file: Path) -> Conformance:
    """A recorded run. Raises SiteError if it is unusable."""
    try:
        return rules_seen.load(file)
    except DataError as error:
        raise SiteError(f"{error}: {AGAIN}") from error


# The rules ------------------------------------------------------------------


def _rules(chosen: dict[str, str], md: Any) -> str:
    """The rules of one section, a row each, and a column a server.

    Only servers for which it has a rule have one.
    """
    section = chosen["section"]
    if section not in SECTIONS:
        known = ", ".join(SECTIONS)
        raise SiteError(f"no section is {section!r}; there are {known}")
    run = recorded(rules_seen.FILE)
    part = {
        name: run.rules.get(name, {}) for name, rule in RULES.items()
        if rule.part == SECTIONS[section]
    }
    shown = [s for s in SERVERS if any(s.name in row for row in part.values())]
    rows, notes = [], []  # notes: why a rule does not hold somewhere
    for name, row in part.items():
        cells = []
        for server in shown:
            word, kind, why = _cell(row.get(server.name), server, name)
            if why:
                notes.append((server.name, RULES[name].text, why))
            cells.append((word, kind, len(notes) if why else 0))
        rows.append((uid(md, "rule", name), RULES[name], cells))
    return html(
        "rules", run=run, id=uid(md, "seen", section), rows=rows, notes=notes,
        stem=uid(md, "why", section), section=SECTIONS[section],
        words={word for _, _, cells in rows for word, _, _ in cells},
        servers=[server.name for server in shown], marked=marked, where=where,
        tests=sum(c.tests for row in part.values() for c in row.values()),
    )


def _cell(
    cell: Cell | None, server: Server, name: str
) -> tuple[str, str, str]:
    """What the tests of a rule did on a server: a word, its class, and why.

    "": the rule is not for it.
    """
    if cell is None:
        return "", "", ""
    reasons = "; ".join(cell.why)
    match cell.outcome:
        case rules_seen.EXPECTED:
            return "exempt", "seven-exempt", server.exemptions[name]
        case rules_seen.FAILED:
            why = f"{cell.failed} of {cell.tests} tests failed"
            return "no", "seven-failed", why
        case rules_seen.SKIPPED:
            why = f"not tried there, {reasons}"
            return "not tried", "seven-exempt", why
    left_out = f"{cell.skipped} of {cell.tests} tests left out, {reasons}"
    return "yes", "seven-yes", left_out if cell.skipped else ""


def marked(text: str) -> Markup:
    """A rule's text with its options as code."""
    code = r"<code>\g<0></code>"
    return Markup(re.sub(r"--\w[\w-]*", code, str(escape(text))))


def where(rule: Rule) -> Markup:
    """Where to read about a rule, with links; nothing if it is here."""
    return Markup("; ").join(
        linked(part) for part in re.split(r"; *", rule.where)
        if not part.startswith("contract,")
    )


def linked(text: str) -> Markup:
    """A section of an RFC, a man page or a PEP as a link."""
    if found := re.match(r"RFC (\d+)", text):
        # The first link takes in the name of the RFC.
        section = r"(?:RFC \d+, sections? )?(\d+(?:\.\d+)*)"
        page = f"https://www.rfc-editor.org/rfc/rfc{found[1]}#section-"
        link = rf'<a href="{page}\g<1>">\g<0></a>'
        return Markup(re.sub(section, link, str(escape(text))))
    if found := re.match(r"man (\d) (\w+)", text):
        chapter, name = found.groups()
        kind = f"{chapter}const" if name.isupper() else chapter
        page = f"https://man7.org/linux/man-pages/man{chapter}/{name}.{kind}"
        page, words = f"{page}.html", f"{name}({chapter})"
    elif found := re.match(r"PEP (\d+)", text):
        page = f"https://peps.python.org/pep-{int(found[1]):04}/"
        words = found[0]
    else:
        return escape(text)
    rest = text[found.end():]
    return Markup('<a href="{}">{}</a>{}').format(page, words, rest)


# The lessons ----------------------------------------------------------------


def _lessons(chosen: dict[str, str], md: Any) -> str:
    """What each server can do that the one before could not."""
    run = recorded(rules_seen.FILE)
    servers = [
        server for server in options.servers(chosen.get("servers", "all"))
        if any(server.name in row for row in run.rules.values())
    ]  # one that is newer than the run is left out
    return html(
        "lessons", run=run, id=uid(md, "lessons"), servers=servers,
        lessons=LESSONS,
    )


# The two RFCs, line by line -------------------------------------------------


def _requirements(chosen: dict[str, str], md: Any) -> str:
    """What the RFCs ask, and what shows it, by chapter and by line."""
    run = recorded(rules_seen.FILE)

    def broken(each: Requirement) -> list[str]:
        """The servers from 02 on that do not keep it everywhere."""
        return [
            server.name for server in SERVERS if server.step > 1 and any(
                cell.outcome in (rules_seen.FAILED, rules_seen.EXPECTED)
                for rule in each.rules
                if (cell := run.rules[rule].get(server.name))
            )
        ]

    def counts(chapter: tuple[str, str] | None = None) -> Sequence[object]:
        """How many MUST and SHOULD all keep, how many are not for us."""
        rows = [e for e in REQUIREMENTS if chapter in (None, e.chapter)]
        cells = []
        for must in (True, False):
            ours = [each for each in rows if each.rules and each.must == must]
            kept = sum(not each.but and not broken(each) for each in ours)
            cells.append(f"{kept} of {len(ours)}" if ours else DASH)
        return *cells, sum(not each.rules for each in rows) or DASH

    return html(
        "requirements", id=uid(md, "rfc", "lines"), chapters=CHAPTERS,
        lines=REQUIREMENTS, broken=broken, counts=counts,
    )


# What the sketch of a step cannot do ----------------------------------------


def _breaks(chosen: dict[str, str], md: Any) -> str:
    """The rules that the sketch of a step breaks, the usual faults first."""
    number = chosen["sketch"]
    run = recorded(rules_seen.SKETCHED)
    return html(
        "breaks", id=uid(md, "breaks", number), run=run, rules=RULES,
        broken=rules_seen.broken(run, options.server(f"{number}-sketch").name),
        tried=len(rules_seen.TRIED),
    )


rules = fence(_rules, "section")
lessons = fence(_lessons, "", "servers")
requirements = fence(_requirements)
breaks = fence(_breaks, "sketch")
