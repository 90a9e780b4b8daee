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
import tomllib
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from tools.common.files import DataError
from tools.data import exchange
from tools.data.exchange import CODING, Exchange
from tools.servers import by_name
from tools.site.errors import SiteError
from tools.site.fence_call import fence, uid
from tools.site.prose import line as prose

GROUP = 8  # bytes: a row is one on a phone, two on a wide screen
START = {  # side -> its first line, a part each
    "request": re.compile(
        rb"(?P<method>[^ \r\n]+ )(?P<target>[^ \r\n]+ )"
        rb"(?P<version>[^ \r\n]+\r\n)"
    ),
    "answer": re.compile(
        rb"(?P<version>HTTP/\d\.\d )(?P<status>\d{3} )"
        rb"(?P<reason>[^\r\n]*\r\n)"
    ),
}
WHO = {
    "request": "The client sends", "answer": "The server answers with",
}  # fmt: skip
HEADER = re.compile(rb"([^:\s]+):[ \t]*([^\r\n]*?)[ \t]*\r\n")
# Bytes that print nothing: spelled out, and as one sign in a row. CR goes
# back to the start of the line, LF down to the next.
MARKS = {
    0x20: ("SP", "\u00b7"), 0x0D: ("CR", "\u2190"), 0x0A: ("LF", "\u2193"),
}  # fmt: skip


@dataclass(frozen=True)
class Meaning:
    """What to say of a field. text: Markdown; where the RFC says it."""

    label: str
    rfc: int
    section: str
    text: str


MEANINGS = {
    key: Meaning(*said)
    for key, said in tomllib.loads(
        Path(__file__).with_name("meanings.toml").read_text("utf-8")
    ).items()
}


@dataclass(frozen=True)
class Field:
    """Some bytes that belong together and mean one thing.

    kind: method, target, version, status, reason, field, end or body;
    name: of a header field, in small letters; value: without spaces and
    line ends around it; offset: of its first byte on this side.
    """

    kind: str
    data: bytes
    offset: int
    value: str = ""
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


def head(side: str, data: bytes, at: int) -> Message:
    """The message that begins there, without its body. Raises SiteError."""
    start = START[side].match(data, at)
    if start is None:
        raise SiteError(f"no start line at byte {at}")
    fields = [
        Field(kind, part, start.start(kind), part.decode(CODING).strip())
        for kind, part in start.groupdict().items()
    ]
    at = start.end()
    while match := HEADER.match(data, at):
        name, value = (part.decode(CODING) for part in match.groups())
        fields.append(Field("field", match[0], at, value, name.lower()))
        at = match.end()
    if not data.startswith(b"\r\n", at):
        raise SiteError(f"no header field at byte {at}")
    return Message(side, (*fields, Field("end", b"\r\n", at)))


def requests(data: bytes) -> list[Message]:
    """What a client sent, cut into fields. Raises SiteError.

    Their bodies are not cut: a field of one would be no start line.
    """
    made: list[Message] = []
    at = 0
    while at < len(data):
        made.append(head("request", data, at))
        at += len(made[-1].data)
    return made


def responses(data: bytes, asked: list[Message]) -> list[Message]:
    """What a server sent back to these requests. Raises SiteError."""
    made: list[Message] = []
    at = 0
    for request in asked:
        if at == len(data):
            break
        found = head("answer", data, at)
        at += len(found.data)
        length = found.value("field", "content-length")
        size = len(data) - at if length is None else int(length)
        if size and request.value("method") != "HEAD":
            body = Field("body", data[at : at + size], at)
            found = Message("answer", (*found.fields, body))
            at += size
        made.append(found)
    if at != len(data):
        raise SiteError("the answers are not as long as they say")
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


def _render(chosen: dict[str, str], md: Any) -> str:
    """Captured bytes with each field explained."""
    name = chosen["exchange"]
    made = _load(name)
    asked = requests(made.sent)
    both = {"request": asked, "answer": responses(made.received, asked)}
    show = chosen.get("show")
    if show not in (None, *both):
        raise SiteError("show is request or answer")
    parts = "".join(
        _message(md, message, number, len(messages))
        for side, messages in both.items()
        if show in (None, side)
        for number, message in enumerate(messages, 1)
    )
    return (
        f'<figure class="seven-wire" id="{uid(md, "wire", name)}">{parts}'
        f"{_caption(md, made, chosen.get('caption', ''))}</figure>"
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
    which = f": {message.side} {number} of {of}" if of > 1 else ""
    fields = "".join(_field(md, message.side, f) for f in message.fields)
    return (
        f'<p class="seven-title">{WHO[message.side]} {len(message.data)} '
        f"bytes{which}</p><dl>{fields}</dl>"
    )


def _field(md: Any, side: str, field: Field) -> str:
    """One field: its text, what it means, its bytes.

    Folded: what the page has explained before, and the bytes of a body.
    """
    key, means = meaning(side, field)
    seen = md.__dict__.setdefault("seven_wire", set())
    again = key in seen
    seen.add(key)
    part = "section" if means.section[0].isdigit() else "appendix"
    says = (
        f"{prose(md, means.text)} "
        '<a class="seven-wire__rfc" href="https://www.rfc-editor.org/rfc/'
        f'rfc{means.rfc}#{part}-{means.section}">RFC&nbsp;{means.rfc}, '
        f"{part}&nbsp;{means.section}</a>"
    )
    dump = _dump(field)
    shown = text = ""
    if field.kind == "body":
        page = escape(field.data.decode("utf-8", "replace"))
        text = f'<div class="seven-wire__body"><code>{page}</code></div>'
    else:
        shown = f" {_text(field.data)}"
    if again:
        inside = f"{text}<p>{says}</p>{dump}"
        html = _folded("Bytes and meaning", means, inside)
    elif text:
        html = f"<dd>{text}{says}</dd>{_folded('Bytes', means, dump)}"
    else:
        html = f"<dd>{says}</dd><dd>{dump}</dd>"
    kind = "seven-wire__field" + " seven-wire__field--again" * again
    label = f"<dt>{escape(means.label)}{shown}</dt>"
    return f'<div class="{kind}">{label}{html}</div>'


def _folded(summary: str, means: Meaning, inside: str) -> str:
    return (
        f'<dd><details class="seven-wire__more"><summary>{summary}'
        f'<span class="seven-wire__of"> of {escape(means.label)}</span>'
        f"</summary>{inside}</details></dd>"
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
    """The bytes in rows of twice eight, their place before them.

    No div in a row: search would misread its end.
    """
    rows = ""
    for at in range(0, len(field.data), 2 * GROUP):
        data = field.data[at : at + 2 * GROUP]
        rows += (
            '<span class="seven-wire__row"><span class="seven-wire__at" '
            f'aria-hidden="true">{field.offset + at:03x}</span>'
            f"{_cells(data[:GROUP], '')}{_cells(data[GROUP:], '2')}</span>"
        )
    return f'<div class="seven-wire__dump" data-search-exclude>{rows}</div>'


def _cells(data: bytes, side: str) -> str:
    """Some bytes in hex and as text; those that print nothing are marked."""
    if not data:
        return ""
    hexed = " ".join(_odd(byte, f"{byte:02x}") for byte in data)
    signs = "".join(
        _odd(byte, MARKS[byte][1]) if byte in MARKS
        else escape(chr(byte)) if 0x20 <= byte < 0x7F else "."
        for byte in data
    )
    return (
        f'<span class="seven-wire__hex{side}">{hexed}</span> '
        f'<span class="seven-wire__text{side}" aria-hidden="true">{signs}'
        "</span>"
    )


def _odd(byte: int, text: str) -> str:
    if byte not in MARKS:
        return text
    return f'<span class="seven-wire__odd">{text}</span>'


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


wire = fence(_render, "exchange", "show caption")
