"""The controls of the page Compare: which servers it shows.

A script (docs/assets/compare.js) brings them to life; without one they are
not shown, and everything else on the page is.
"""

from html import escape
from typing import Any

from tools.servers import NO, SERVERS, YES, Server
from tools.site import options
from tools.site.fence_call import fence, uid


def family(server: Server) -> str:
    """What it does while a request waits: one of four ways."""
    if server.lessons["cores"] == YES:
        return "many cores"
    if server.lessons["overlap"] == NO:
        return "wait one at a time"
    return "threads" if "thread" in server.waits else "event loops"


def presets() -> dict[str, list[str]]:
    """Names of servers to choose together, by what the button says."""
    steps = [server.name for server in options.servers("steps")]
    found = {
        "all": [server.name for server in SERVERS],
        "the seven steps": steps,
        "the variants": [s.name for s in SERVERS if s.name not in steps],
    }
    for server in SERVERS:
        found.setdefault(family(server), []).append(server.name)
    return found


def _render(chosen: dict[str, str], md: Any) -> str:
    """A box for each server, and buttons for some together."""
    buttons = "".join(
        f'<button type="button" class="md-button" aria-pressed="false" '
        f'data-servers="{escape(" ".join(names))}">{escape(words)}</button>'
        for words, names in presets().items()
    )
    boxes = "".join(
        f'<label><input type="checkbox" checked value="{server.name}"> '
        f"<span><strong>{server.name}</strong> "
        f"<small>{escape(server.title)}</small></span></label>"
        for server in SERVERS
    )
    return (
        f'<div class="seven-compare" id="{uid(md, "compare servers")}" '
        'data-search-exclude><p class="seven-compare-plain">With a script, '
        "servers can be chosen here. Without one you see them all.</p>"
        '<div class="seven-compare-live" hidden>'
        '<fieldset class="seven-filter"><legend>Which servers?</legend>'
        f'<div class="seven-presets">{buttons}</div>'
        f'<div class="seven-choices">{boxes}</div>'
        '<p class="seven-shown" role="status"></p></fieldset></div></div>'
    )


compare = fence(_render)
