"""Small helpers for SVG: elements, scales and ticks.

Horizontal positions are in percent and vertical ones in pixels, with no
viewBox: so a chart takes the width of its page, and text keeps its size
on a phone.
"""

import math
from html import escape

TALL = 800  # more pixels than this are more than a page of paper


def element(name: str, content: str = "", **attributes: object) -> str:
    """One element; ``class_`` gives class, ``stroke_width`` a dash."""
    text = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escape(str(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{text}>{content}</{name}>"


def text(content: str, **attributes: object) -> str:
    """A text element; its content is escaped."""
    return element("text", escape(content), **attributes)


def label(
    content: str, x: str | int, y: float, kind: str, anchor: str | None = None
) -> str:
    """A text with a class of ours; anchor: what of it stands at x."""
    return text(
        content, x=x, y=px(y), text_anchor=anchor, class_=f"seven-{kind}"
    )


def column(
    x: str, height: float, content: str, anchor: str = "middle"
) -> str:
    """A vertical line of a grid with its number below."""
    words = label(content, x, height + 17, "tick", anchor)
    return line((x, x), (0, height), "seven-grid") + words


def line(
    x: tuple[str, str], y: tuple[float, float], kind: str | None = None
) -> str:
    """A line from one point to another; kind: its class."""
    return element(
        "line", class_=kind, x1=x[0], x2=x[1], y1=px(y[0]), y2=px(y[1])
    )


def percent(part: float) -> str:
    """A part of one as a percentage for an attribute."""
    return f"{100 * part:.3f}".rstrip("0").rstrip(".") + "%"


def px(value: float) -> str:
    """A number of pixels for an attribute: no needless digits."""
    return f"{value:g}"


def at(x: str, y: float, content: str) -> str:
    """Content moved to a point, its own coordinates in pixels from it."""
    return element(
        "svg", content, x=x, y=px(y), width="1", height="1",
        overflow="visible",
    )


def chart(
    uid: str, title: str, description: str, height: float, content: str,
    kind: str,
) -> str:
    """The outer element, with what a screen reader reads."""
    return element(
        "svg",
        element("title", escape(title), id=f"{uid}-title")
        + element("desc", escape(description), id=f"{uid}-desc")
        + content,
        class_=f"seven-svg seven-svg--{kind}"
        + (" seven-svg--tall" if height > TALL else ""),
        width="100%",
        height=px(height),
        role="img",
        aria_labelledby=f"{uid}-title {uid}-desc",
    )


def ticks(top: float, wanted: int = 4) -> list[float]:
    """Round numbers from 0 to top, about as many as wanted."""
    if top <= 0:
        return [0.0]
    raw = top / wanted
    power: float = 10.0 ** math.floor(math.log10(raw))
    step = next(s * power for s in (1, 2, 2.5, 5, 10) if s * power >= raw)
    return [i * step for i in range(int(top / step + 1e-9) + 1)]


def powers(low: float, high: float, base: int) -> list[float]:
    """Powers of base from low to high, for a logarithmic axis."""
    first = math.ceil(math.log(low, base) - 1e-9)
    last = math.floor(math.log(high, base) + 1e-9)
    return [float(base) ** n for n in range(first, last + 1)]
