"""The waterfall and the lanes of a recording, as SVG without a script.

Positions in time are percentages of one axis, the same for every chart of
a race. What a bar is shows in its shape as well as in its colour.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from markupsafe import Markup

from tools.data.recording import Client, Lane, Recording
from tools.site import svg

AXIS = 22  # px below the rows
ROW = 12  # px of a client, or of a thread among many
LANE_ROWS = {3: 30, 12: 18}  # px of a thread among at most so many
NEAR = 0.001  # of the axis: spans closer than that are drawn as one
Row = tuple[str, dict[str, int], str]  # its shapes, whose it is, its label

# Of a client: class, what it means.
PARTS = {
    "queued": "in the accept queue",
    "accepted": "accepted, not read",
    "work": "at work",
    "answering": "being answered",
}
# Of a thread: the kinds of spans; and how high a row each is drawn, from
# where to where as parts of the row: so that shape tells what colour does.
BANDS = {
    "wait": ("sleeps", 0.42, 0.58),
    "accept": ("accepts", 0.02, 0.34),
    "read": ("reads", 0.18, 0.66),
    "work": ("runs Python", 0.34, 0.82),
    "write": ("writes", 0.5, 0.98),
}


def waterfall(
    uid: str, title: str, recording: Recording, top: float
) -> Markup:
    """A row a client: how long it was where. top: end of the axis, µs."""
    rows = [
        (_client(client, at * ROW, top), {"data_client": at},
         f"{at + 1}" if at == 0 or at % 5 == 4 else "")
        for at, client in enumerate(recording.clients)
    ]
    return _chart(uid, title, summary(recording), rows, ROW, top, "requests")


def _client(client: Client, y: float, top: float) -> str:
    """The bars of a row; the two ways of waiting are lines."""
    c, middle = client, y + ROW / 2
    times = (c.begun, c.accepted, c.read, c.answered, c.done)
    bars = ""
    for name, begin, end in zip(PARTS, times, times[1:], strict=False):
        kind = f"race-part race-part--{name}"
        x, right = svg.percent(begin / top), svg.percent(end / top)
        if begin >= end:
            continue
        if name in ("queued", "accepted"):
            bars += svg.line((x, right), (middle, middle), kind)
            continue
        bars += svg.element(
            "rect", class_=kind, x=x,
            width=svg.percent(end / top - begin / top), y=f"{y + 2:g}",
            height=ROW - 4,
        )
    return bars


def lanes(
    uid: str, title: str, recording: Recording, top: float
) -> Markup:
    """A row a thread: what it was doing. top: end of the axis, µs."""
    count = len(recording.lanes)
    row = next((px for most, px in LANE_ROWS.items() if count <= most), ROW)
    rows = [
        (_lane(lane, at * row, row, top), {"data_lane": at}, lane.name)
        for at, lane in enumerate(recording.lanes)
    ]
    return _chart(uid, title, doing(recording), rows, row, top, "threads")


def _lane(lane: Lane, y: float, row: float, top: float) -> str:
    return "".join(
        svg.element(
            "rect", class_=f"race-span race-span--{kind}",
            x=svg.percent(begin / top),
            width=svg.percent(max(end - begin, 1) / top),
            y=f"{y + upper * row:.1f}",
            height=f"{(lower - upper) * row:.1f}",
        )
        for kind, (_, upper, lower) in BANDS.items()
        for begin, end in together(
            ((s.begin, s.end) for s in lane.spans if s.kind == kind),
            top * NEAR,
        )
    )


def together(
    times: Iterable[tuple[int, int]], near: float
) -> list[tuple[int, int]]:
    """Times in order, those closer than near as one: no eye parts them."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(times):
        if found and begin - found[-1][1] < near:
            begin, last = found.pop()
            end = max(end, last)
        found.append((begin, end))
    return found


def _chart(
    uid: str, title: str, description: str, rows: list[Row], row: float,
    top: float, view: str,
) -> Markup:
    """Rows of so many px under a grid of time, a curtain and a playhead.

    The curtain covers what is right of the playhead; without a script it
    has no width. The labels stay in front of it.
    """
    height = len(rows) * row
    labels = "".join(
        svg.text(name, class_="race-row", x="-8",
                 y=f"{at * row + row / 2 + 4:g}", text_anchor="end")
        for at, (_, _, name) in enumerate(rows) if name
    )
    grid = ""
    for tick in svg.ticks(top / 1000, 5):
        part = tick * 1000 / top
        x = svg.percent(part)
        grid += svg.line((x, x), (0, height), "seven-grid")
        anchor = "end" if part > 0.95 else "middle" if tick else "start"
        name = svg.text(
            f"{tick:,g}" if tick else "0 ms", class_="race-tick",
            x=x, y=svg.px(height + 15), text_anchor=anchor,
        )
        if tick:
            grid += name
        else:
            labels += name
    shapes = "".join(
        svg.element("g", its, **whose) for its, whose, _ in rows
    )
    curtain = svg.element(
        "rect", class_="race-curtain", x="100%", y="0", width="0",
        height=f"{height + AXIS:g}",
    )
    head = svg.line(("100%", "100%"), (-3, height), "race-head")
    return Markup(svg.chart(
        uid, title, description, height + AXIS,
        grid + shapes + curtain + head + labels, f"race race-chart--{view}",
    ))


def summary(recording: Recording) -> str:
    """What a waterfall shows, in sentences."""
    clients = recording.clients
    first = min(c.done for c in clients) / 1000
    return (
        f"{len(clients)} requests at once. The first is answered after "
        f"{first:,.0f} ms, the last after {recording.length / 1000:,.0f} "
        f"ms. At most {recording.peak} "
        f"{'is' if recording.peak == 1 else 'are'} at work at once."
    )


def doing(recording: Recording) -> str:
    """What the lanes show, in sentences."""
    count = len(recording.lanes)
    threads = f"{count} {'thread' if count == 1 else 'threads'}"
    slept = (
        f"At most {recording.busy} slept for a request at once."
        if recording.busy else "None slept for a single request."
    )
    return f"{threads}, {recording.count:,} system calls. {slept}"


class View(NamedTuple):
    """A view of a recording; a script shows one at a time."""

    name: str
    heading: str
    row: str
    keys: dict[str, str]  # CSS class -> what it means
    draw: Callable[[str, str, Recording, float], Markup]
    describe: Callable[[Recording], str]


VIEWS = (
    View(
        "requests", "Each request", "client",
        {f"part--{name}": words for name, words in PARTS.items()},
        waterfall, summary,
    ),
    View(
        "threads", "What the server is doing", "thread",
        {f"span--{kind}": band[0] for kind, band in BANDS.items()},
        lanes, doing,
    ),
)
