"""What the sketch of a step cannot do, from the recorded run of the tests.

The environment can name another recording: SEVEN_SKETCHES.
"""

import os
from html import escape
from pathlib import Path
from typing import Any

from tools.common.files import DataError
from tools.data import sketches_seen
from tools.data.rules_seen import Conformance
from tools.rules import RULES
from tools.servers import SKETCHES
from tools.site import options
from tools.site.errors import SiteError
from tools.site.fence_call import fence, uid

CONTRACT = "../reference/contract.html#rule-"
# The bridge from a sketch to its server: what a client does, and the rules
# that say what should come of it.
FIRST = {
    "Half a request": ("bytewise", "pieces"),
    "A client that breaks off": ("reset",),
    "Two requests at once": ("pipelining",),
    "Ten seconds of silence": ("silent",),
    "Two lengths that disagree": ("coding-and-length", "two-lengths"),
}


def recorded() -> Conformance:
    """The recorded run. Raises SiteError if it is not of these sketches."""
    file = Path(os.environ.get("SEVEN_SKETCHES") or sketches_seen.FILE)
    try:
        run = sketches_seen.load(file)
    except DataError as error:
        raise SiteError(f"{error}: {sketches_seen.AGAIN}") from error
    lack = sketches_seen.lack(run, [sketch.name for sketch in SKETCHES])
    if lack:
        raise SiteError(f"{file.name} has {lack}: {sketches_seen.AGAIN}")
    return run


def _render(chosen: dict[str, str], md: Any) -> str:
    """The rules that the sketch of a step breaks, the usual faults first."""
    number = chosen["sketch"]
    sketch = options.server(f"{number}-sketch").name
    run = recorded()
    broken = sketches_seen.broken(run, sketch)
    tried = len(sketches_seen.TRIED)
    others = list(broken)
    lines = []
    for what, names in FIRST.items():
        if found := [name for name in names if name in others]:
            others = [name for name in others if name not in found]
            rules = "; ".join(map(_rule, found))
            lines.append(f"<li><strong>{what}</strong>: {rules}.</li>")
    rest = "".join(f"<li>{_rule(name)}</li>" for name in others)
    commit = f", commit {run.commit}" if run.commit else ""
    return (
        f'<figure class="seven-seen" id="{uid(md, "breaks", number)}">'
        f'<ul>{"".join(lines)}</ul><details class="seven-data"><summary>'
        f"{len(others)} more rules that it breaks</summary><ul>{rest}</ul>"
        f"</details><figcaption>Of the {tried} rules that were tried, it "
        f"breaks {len(broken)} and keeps {tried - len(broken)}. Seen on "
        f"{escape(run.started[:10] + commit)}, with "
        f"<code>{escape(run.command)}</code>.</figcaption></figure>"
    )


def _rule(name: str) -> str:
    """A rule's text, a link to its row of the contract."""
    return f'<a href="{CONTRACT}{name}">{escape(RULES[name].text)}</a>'


breaks = fence(_render, "sketch")
