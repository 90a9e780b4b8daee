"""The lab "Look inside a running server": what one tool printed of each.

The data are docs/data/labs-inside, of ``./bench.sh labs inside``.
"""

from html import escape
from typing import Any

from tools.servers import by_name
from tools.site import elements, experiments
from tools.site.errors import SiteError
from tools.site.fence_call import fence, uid

RUN = SUITE = "labs-inside"
TOOLS = ("ss", "ps", "strace", "py-spy")


def _render(chosen: dict[str, str], md: Any) -> str:
    """What a tool printed, the servers beside one another."""
    tool = chosen["tool"]
    if tool not in TOOLS:
        raise SiteError(f"the lab uses {', '.join(TOOLS)}, not {tool!r}")
    blocks = ""
    for point in experiments.points(RUN, SUITE):
        server = by_name(point.server)
        missing = f"{tool} was not on the machine."
        text = elements.preformatted(point.runs[0].texts.get(tool, missing))
        blocks += (
            f"<div><p><strong>{escape(server.name)}</strong> "
            f"{escape(server.waits)}</p>{text}</div>"
        )
    return elements.figure(
        uid(md, "inside", tool), "measured",
        f'<div class="grid">{blocks}</div>' if tool == "ps" else blocks,
        experiments.caption(RUN, chosen.get("caption", "")),
    )


inside = fence(_render, "tool", "caption")
