"""The controls of the page Compare: which servers it shows.

A script (docs/assets/compare.js) brings them to life; without one they are
not shown, and everything else on the page is.
"""

from typing import Any

from tools.servers import NO, SERVERS, YES, Server
from tools.site import data
from tools.site.fence_call import fence, uid
from tools.site.template import html


def family(server: Server) -> str:
    """What it does while a request waits: one of four ways."""
    if server.lessons["cores"] == YES:
        return "many cores"
    if server.lessons["overlap"] == NO:
        return "wait one at a time"
    return "threads" if "thread" in server.waits else "event loops"


def measured() -> list[Server]:
    """The servers that the reference knows."""
    return [s for s in SERVERS if not data.not_measured(s.name, "classic")]


def presets() -> dict[str, list[str]]:
    """Names of servers to choose together, by what the button says."""
    names = [server.name for server in measured()]
    steps = [name for name in names if name.isdecimal()]
    found = {
        "all": names, "the seven steps": steps,
        "the variants": [name for name in names if name not in steps],
    }
    for server in measured():
        found.setdefault(family(server), []).append(server.name)
    return found


def _render(chosen: dict[str, str], md: Any) -> str:
    """A box for each server, and buttons for some together."""
    return html(
        "compare", id=uid(md, "compare servers"), presets=presets(),
        servers=measured(),
    )


compare = fence(_render)
