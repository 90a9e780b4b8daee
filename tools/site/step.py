"""A file stepped on the simulated kernel: the fence ``step``.

::

    file: 04_selectors/sketch.py
    scenario: three
    moment: block sleep 2
    caption: What this moment shows.

Without a script it shows that moment, with its caption: here, when a thread
blocks in sleep for the second time.
"""

from typing import Any

from tools.site import source
from tools.site.errors import SiteError
from tools.site.fence_call import code, fence, uid
from tools.steps import show


def _render(chosen: dict[str, str], md: Any) -> str:
    file, name = chosen["file"], chosen["scenario"]
    path, text = source.path(file), source.read(file)
    order = [name, *(each for each in show.EVERY if each != name)]
    try:
        data = show.facts(path, order, shown=chosen["moment"])
        step = data["scenarios"][0]["moment"]
        moment = show.traced(path, name, last_step=step)
    except (show.StepError, KeyError) as error:
        raise SiteError(str(error)) from error
    numbers = range(1, text.count("\n") + 1)
    label = source.label(file)
    block = code(md, text, "python", label, f"step {label}", [*numbers])
    return show.figure(
        uid(md, "step", file), block, data, chosen["caption"],
        moment["seen"],
    )


step = fence(_render, "file scenario moment caption")
