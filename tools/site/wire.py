"""Captured bytes with each field explained where it stands.

::

    exchange: get
    show: request
    caption: Words of the page.

``exchange`` is a name in docs/data/wire; ``show`` (request or answer)
leaves out the other side. What one page has explained already is folded
when it comes again, so a second exchange is short.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

from tools.common.files import DataError
from tools.data import exchange
from tools.data.exchange import CODING, Exchange
from tools.servers import by_name
from tools.site import options
from tools.site.errors import SiteError
from tools.site.fence_call import fence, uid
from tools.site.meanings import MEANINGS, Meaning
from tools.site.prose import line as prose

GROUP = 8  # bytes: a row is one on a phone, two on a wide screen
REQUEST_LINE = re.compile(rb"([^ \r\n]+ )([^ \r\n]+ )([^ \r\n]+\r\n)")
STATUS_LINE = re.compile(rb"(HTTP/\d\.\d )(\d{3} )([^\r\n]*\r\n)")
HEADER = re.compile(rb"([^:\s]+):[ \t]*([^\r\n]*?)[ \t]*\r\n")
# Bytes that print nothing: spelled out, and as one sign in a row. CR goes
# back to the start of the line, LF down to the next.
MARKS = {
    0x20: ("SP", "\u00b7"), 0x0D: ("CR", "\u2190"), 0x0A: ("LF", "\u2193"),
}  # fmt: skip


@dataclass(frozen=True)
class Field:
    """Some bytes that belong together and mean one thing.

    kind: method, target, version, status, reason, field, end or body;
    name: of a header field, in small letters; value: without spaces and
    line ends around it; offset: of its first byte on this side.
    """

    kind: str
    data: bytes
    value: str
    offset: int
    name: str = ""


@dataclass(frozen=True)
class Message:
    """One request or one answer. side: request or answer."""

    side: str
    fields: tuple[Field, ...]

    @property
    def data(self) -> bytes:
        """All of its bytes."""
        return b"".join(field.data for field in self.fields)

    def value(self, kind: str, name: str = "") -> str | None:
        """The value of the first field of this kind and name."""
        for field in self.fields:
            if (field.kind, field.name) == (kind, name):
                return field.value
        return None


class _Reader:
    """Cuts one side of an exchange into fields, from the first byte."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.fields: list[Field] = []

    def take(self, kind: str, size: int, value: str, name: str = "") -> None:
        """The next bytes are one field."""
        data = self.data[self.at : self.at + size]
        if len(data) < size:
            raise SiteError(f"the bytes end within the {kind}")
        self.fields.append(Field(kind, data, value, self.at, name))
        self.at += size

    def line(self, pattern: re.Pattern[bytes], kinds: list[str]) -> None:
        """A start line of three parts."""
        match = pattern.match(self.data, self.at)
        if match is None:
            raise SiteError(f"no start line at byte {self.at}")
        for kind, part in zip(kinds, match.groups(), strict=True):
            self.take(kind, len(part), part.decode(CODING).strip())

    def headers(self) -> None:
        """The header fields and the empty line."""
        while not self.data.startswith(b"\r\n", self.at):
            match = HEADER.match(self.data, self.at)
            if match is None:
                raise SiteError(f"no header field at byte {self.at}")
            name, value = (part.decode(CODING) for part in match.groups())
            self.take("field", len(match[0]), value, name.lower())
        self.take("end", 2, "")

    def message(self, side: str) -> Message:
        """What has been cut since the last message."""
        made = Message(side, tuple(self.fields))
        self.fields = []
        return made


def requests(data: bytes) -> list[Message]:
    """What a client sent, cut into fields. Raises SiteError."""
    reader, made = _Reader(data), []
    while reader.at < len(data):
        reader.line(REQUEST_LINE, ["method", "target", "version"])
        reader.headers()
        made.append(reader.message("request"))
        for name in ("content-length", "transfer-encoding"):
            if made[-1].value("field", name) is not None:
                raise SiteError("a request with a body cannot be shown yet")
    return made


def answers(data: bytes, asked: list[Message]) -> list[Message]:
    """What a server sent back to these requests. Raises SiteError."""
    reader, made = _Reader(data), []
    for request in asked:
        if reader.at == len(data):
            break
        reader.line(STATUS_LINE, ["version", "status", "reason"])
        reader.headers()
        length = Message("answer", tuple(reader.fields)).value(
            "field", "content-length"
        )
        if request.value("method") != "HEAD":
            rest = len(data) - reader.at
            size = rest if length is None else int(length)
            if size:
                reader.take("body", size, "")
        made.append(reader.message("answer"))
    if reader.at < len(data):
        raise SiteError("more was answered than asked")
    return made


def meaning(side: str, field: Field) -> tuple[str, Meaning]:
    """Its place in the table and what it means; the exact value first.

    Raises SiteError if nothing explains it.
    """
    what = field.name if field.kind == "field" else field.kind
    for key in (f"{side} {what} {field.value}".lower(), f"{side} {what}"):
        if key in MEANINGS:
            return key, MEANINGS[key]
    raise SiteError(
        f"nothing explains {side} {what} {field.value!r}: add it to "
        "MEANINGS in tools/site/meanings.toml"
    )


# HTML ----------------------------------------------------------------


def _render(text: str, md: Any) -> str:
    """Captured bytes with each field explained."""
    chosen = options.parse(text, ["exchange"], ["show", "caption"])
    name = chosen["exchange"]
    made = _load(name)
    sides = ["request", "answer"]
    if "show" in chosen:
        if chosen["show"] not in sides:
            raise SiteError("show is request or answer")
        sides = [chosen["show"]]
    asked = requests(made.sent)
    both = {"request": asked, "answer": answers(made.received, asked)}
    parts = [
        _message(md, message, number, len(both[side]))
        for side in sides
        for number, message in enumerate(both[side], 1)
    ]
    return (
        f'<figure class="seven-wire" id="{uid(md, "wire", name)}">'
        + "".join(parts)
        + _caption(md, made, chosen.get("caption", ""))
        + "</figure>"
    )


def _load(name: str) -> Exchange:
    known = sorted(file.stem for file in exchange.REFERENCE.glob("*.json"))
    if name not in known:
        raise SiteError(
            f"no exchange is called {name!r}; there are {', '.join(known)}"
        )
    try:
        return exchange.load(exchange.REFERENCE / f"{name}.json")
    except DataError as error:
        raise SiteError(str(error)) from error


def _message(md: Any, message: Message, number: int, of: int) -> str:
    """A request or an answer with its fields."""
    who = "The client sends" if message.side == "request" else (
        "The server answers with"
    )
    which = f": {message.side} {number} of {of}" if of > 1 else ""
    fields = "".join(_field(md, message.side, f) for f in message.fields)
    return (
        f'<p class="seven-title">{who} {len(message.data)} bytes'
        f"{which}</p>"
        f"<dl>{fields}</dl>"
    )


def _field(md: Any, side: str, field: Field) -> str:
    """One field: its text, what it means, its bytes.

    Folded: what the page has explained before, and the bytes of a body.
    """
    key, means = meaning(side, field)
    seen = md.__dict__.setdefault("seven_wire", set())
    again = key in seen
    seen.add(key)
    says = f"{prose(md, means.text)} {_rfc(means)}"
    dump = _dump(field)
    shown = text = ""
    if field.kind == "body":
        page = escape(field.data.decode("utf-8", "replace"))
        text = f'<div class="seven-wire__body"><code>{page}</code></div>'
    else:
        shown = f" {_text(field.data)}"
    kind = "seven-wire__field" + " seven-wire__field--again" * again
    html = f'<div class="{kind}"><dt>{escape(means.label)}{shown}</dt>'
    if again:
        inside = f"{text}<p>{says}</p>{dump}"
        html += _folded("Bytes and meaning", means, inside)
    elif text:
        html += f"<dd>{text}{says}</dd>{_folded('Bytes', means, dump)}"
    else:
        html += f"<dd>{says}</dd><dd>{dump}</dd>"
    return html + "</div>"


def _folded(summary: str, means: Meaning, inside: str) -> str:
    return (
        f'<dd><details class="seven-wire__more"><summary>{summary}'
        f'<span class="seven-wire__of"> of {escape(means.label)}</span>'
        f"</summary>{inside}</details></dd>"
    )


def _rfc(means: Meaning) -> str:
    part = "section" if means.section[0].isdigit() else "appendix"
    address = f"https://www.rfc-editor.org/rfc/rfc{means.rfc}"
    return (
        f'<a class="seven-wire__rfc" href="{address}#{part}-'
        f'{means.section}">RFC&nbsp;{means.rfc}, {part}&nbsp;'
        f"{means.section}</a>"
    )


def _text(data: bytes) -> str:
    """Bytes as text; line ends and the last space spelled out."""
    shown = data.rstrip(b"\r\n ")
    marks = "".join(
        f'<span class="seven-wire__mark">{MARKS[byte][0]}</span>'
        for byte in data[len(shown) :]
    )
    code = escape(shown.decode(CODING))
    return (
        (f"<code>{code}</code> " if code else "")
        + f'<span class="seven-wire__marks">{marks}</span>'
    )


def _dump(field: Field) -> str:
    """The bytes in rows. No div in it: search would misread its end."""
    rows = "".join(
        _row(field.offset + at, field.data[at : at + 2 * GROUP])
        for at in range(0, len(field.data), 2 * GROUP)
    )
    return f'<div class="seven-wire__dump" data-search-exclude>{rows}</div>'


def _row(offset: int, data: bytes) -> str:
    """Sixteen bytes: their place, then twice eight in hex and as text."""
    cells = "".join(
        f'<span class="seven-wire__hex{side}">'
        f"{' '.join(_bytes(group, hexed=True))}</span> "
        f'<span class="seven-wire__text{side}" aria-hidden="true">'
        f"{''.join(_bytes(group, hexed=False))}</span>"
        for side, group in (("", data[:GROUP]), ("2", data[GROUP:]))
        if group
    )
    return (
        '<span class="seven-wire__row">'
        f'<span class="seven-wire__at" aria-hidden="true">{offset:03x}'
        f"</span>{cells}</span>"
    )


def _bytes(data: bytes, hexed: bool) -> Iterator[str]:
    for byte in data:
        plain = chr(byte) if 0x20 <= byte < 0x7F else "."
        sign = MARKS[byte][1] if byte in MARKS else escape(plain)
        shown = f"{byte:02x}" if hexed else sign
        yield (
            f'<span class="seven-wire__odd">{shown}</span>'
            if byte in MARKS
            else shown
        )


def _caption(md: Any, made: Exchange, own: str) -> str:
    """Words of the page, and where the bytes come from."""
    server = by_name(made.server)
    words = [prose(md, own)] if own else []
    if made.half_closed:
        words.append("The client ended its side after that.")
    words.append(
        f"Captured on {made.started[:10]} from <code>"
        f"{escape(server.file)}</code> by <code>{escape(made.command)}"
        "</code>. Each byte is two digits in hex, with its sign beside: SP, "
        "a space, is \u00b7; CR LF, the end of a line, is \u2190\u2193."
    )
    return f"<figcaption>{' '.join(words)}</figcaption>"


wire = fence(_render)
