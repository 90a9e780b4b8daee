"""The waterfall and the lanes of a recording, as SVG without a script.

Positions in time are percentages of one axis, the same for every chart of
a race. What a bar is shows in its shape as well as in its colour.
"""

from collections.abc import Iterable

from tools.data.recording import Lane, Recording
from tools.site import svg

AXIS = 22  # px below the rows
ROW = 12  # px of a client, or of a thread among many
FEW = 3  # so many threads get rows of FEW_ROW px
FEW_ROW = 30
SOME = 12
SOME_ROW = 18
NEAR = 0.001  # of the axis: spans closer than that are drawn as one

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
) -> str:
    """A row a client: how long it was where. top: end of the axis, µs."""
    rows = []
    for at, client in enumerate(recording.clients):
        y = at * ROW
        times = (
            client.begun, client.accepted, client.read, client.answered,
            client.done,
        )
        bars = "".join(
            _bar(name, begin, end, y, top)
            for name, begin, end in zip(
                PARTS, times, times[1:], strict=False
            )
        )
        rows.append(svg.element("g", bars, data_client=at))
    labels = "".join(
        _label(f"{at + 1}", at * ROW + ROW / 2)
        for at in range(len(recording.clients))
        if at == 0 or at % 5 == 4
    )
    height = len(recording.clients) * ROW
    return _chart(
        uid, title, summary(recording), height, "".join(rows), labels, top,
        "requests",
    )


def _bar(name: str, begin: int, end: int, y: float, top: float) -> str:
    """A part of a client's row; the two ways of waiting are lines."""
    if end <= begin:
        return ""
    if name in ("queued", "accepted"):
        middle = f"{y + ROW / 2:g}"
        return svg.element(
            "line", class_=f"race-part race-part--{name}",
            x1=svg.percent(begin / top), x2=svg.percent(end / top),
            y1=middle, y2=middle,
        )
    return svg.element(
        "rect", class_=f"race-part race-part--{name}",
        x=svg.percent(begin / top), width=svg.percent((end - begin) / top),
        y=f"{y + 2:g}", height=ROW - 4,
    )


def lanes(uid: str, title: str, recording: Recording, top: float) -> str:
    """A row a thread: what it was doing. top: end of the axis, µs."""
    count = len(recording.lanes)
    row = FEW_ROW if count <= FEW else SOME_ROW if count <= SOME else ROW
    rows = []
    for at, lane in enumerate(recording.lanes):
        rows.append(
            svg.element(
                "g", _lane(lane, at * row, row, top), data_lane=at
            )
        )
    labels = "".join(
        _label(lane.name, at * row + row / 2)
        for at, lane in enumerate(recording.lanes)
    )
    return _chart(
        uid, title, doing(recording), count * row, "".join(rows), labels,
        top, "threads",
    )


def _lane(lane: Lane, y: float, row: float, top: float) -> str:
    shapes = []
    for kind, (_, upper, lower) in BANDS.items():
        times = (
            (s.begin, s.end) for s in lane.spans if s.kind == kind
        )
        for begin, end in together(times, top * NEAR):
            shapes.append(
                svg.element(
                    "rect", class_=f"race-span race-span--{kind}",
                    x=svg.percent(begin / top),
                    width=svg.percent(max(end - begin, 1) / top),
                    y=f"{y + upper * row:.1f}",
                    height=f"{(lower - upper) * row:.1f}",
                )
            )
    return "".join(shapes)


def together(
    times: Iterable[tuple[int, int]], near: float
) -> list[tuple[int, int]]:
    """Times in order, those closer than near as one: no eye parts them."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted(times):
        if found and begin - found[-1][1] < near:
            found[-1] = (found[-1][0], max(end, found[-1][1]))
        else:
            found.append((begin, end))
    return found


def _label(name: str, y: float) -> str:
    return svg.text(
        name, class_="race-row", x="-8", y=f"{y + 4:g}", text_anchor="end"
    )


def _chart(
    uid: str, title: str, description: str, height: float, rows: str,
    labels: str, top: float, view: str,
) -> str:
    """Rows over a time axis, with what a script needs to hide the future.

    The curtain covers what is right of the playhead; without a script it
    has no width. The labels stay in front of it.
    """
    grid = []
    for tick in svg.ticks(top / 1000, 5):
        x = svg.percent(tick * 1000 / top)
        name = svg.text(
            f"{tick:,g}" if tick else "0 ms",
            class_="race-tick", x=x, y=f"{height + 15:g}",
            text_anchor="start" if not tick
            else "end" if tick * 1000 / top > 0.95 else "middle",
        )
        if not tick:
            labels += name
            name = ""
        grid.append(
            svg.element(
                "line", class_="seven-grid", x1=x, x2=x, y1="0",
                y2=f"{height:g}",
            )
            + name
        )
    full = f"{height + AXIS:g}"
    curtain = svg.element(
        "rect", class_="race-curtain", x="100%", y="0", width="0",
        height=full,
    )
    head = svg.element(
        "line", class_="race-head", x1="100%", x2="100%", y1="-3",
        y2=f"{height:g}",
    )
    return svg.chart(
        uid, title, description, height + AXIS,
        "".join(grid) + rows + curtain + head + labels,
        f"race race-chart--{view}",
    )


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
    calls = recording.calls[-1][1] if recording.calls else 0
    threads = f"{count} {'thread' if count == 1 else 'threads'}"
    slept = (
        f"At most {recording.busy} slept for a request at once."
        if recording.busy else "None slept for a single request."
    )
    return f"{threads}, {calls:,} system calls. {slept}"


def legend(requests: bool) -> str:
    """The keys of one of the two views, as HTML."""
    keys = (
        [(f"part--{name}", words) for name, words in PARTS.items()]
        if requests
        else [(f"span--{kind}", BANDS[kind][0]) for kind in BANDS]
    )
    items = "".join(
        f'<span><i class="race-key race-key--{name}"></i>{words}</span>'
        for name, words in keys
    )
    return (
        '<p class="seven-legend race-legend" aria-hidden="true">'
        f"{items}</p>"
    )
