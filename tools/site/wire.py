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
from functools import partial
from pathlib import Path
from typing import Any

from tools.common.files import DataError
from tools.data import exchange
from tools.data.exchange import CODING, Exchange
from tools.servers import by_name
from tools.site.errors import SiteError
from tools.site.fence_call import fence, uid
from tools.site.prose import line as prose
from tools.site.template import html

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
HEADER = re.compile(rb"([^:\s]+):[ \t]*([^\r\n]*?)[ \t]*\r\n")


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

    what: method, target, version, status, reason, end, body, or the name
    of a header field in small letters; offset: of its first byte on this
    side; value: without spaces and line ends around it.
    """

    what: str
    data: bytes
    offset: int
    value: str = ""

    @property
    def text(self) -> str:
        """What is to be read of it."""
        return self.data.rstrip(b"\r\n ").decode(CODING)


Message = list[Field]


def size(message: Message) -> int:
    """How many bytes it has."""
    return sum(len(field.data) for field in message)


def value(message: Message, what: str) -> str | None:
    """The value of its first field that is called so."""
    return next((f.value for f in message if f.what == what), None)


def head(side: str, data: bytes, at: int) -> Message:
    """The message that begins there, without its body. Raises SiteError."""
    start = START[side].match(data, at)
    if start is None:
        raise SiteError(f"no start line at byte {at}")
    fields = [
        Field(what, part, start.start(what), part.decode(CODING).strip())
        for what, part in start.groupdict().items()
    ]
    at = start.end()
    while match := HEADER.match(data, at):
        name, said = (part.decode(CODING) for part in match.groups())
        fields.append(Field(name.lower(), match[0], at, said))
        at = match.end()
    if not data.startswith(b"\r\n", at):
        raise SiteError(f"no header field at byte {at}")
    return [*fields, Field("end", b"\r\n", at)]


def requests(data: bytes) -> list[Message]:
    """What a client sent, cut into fields. Raises SiteError.

    Their bodies are not cut: a field of one would be no start line.
    """
    made: list[Message] = []
    at = 0
    while at < len(data):
        made.append(head("request", data, at))
        at += size(made[-1])
    return made


def responses(data: bytes, asked: list[Message]) -> list[Message]:
    """What a server sent back to these requests. Raises SiteError."""
    made: list[Message] = []
    at = 0
    for request in asked:
        if at == len(data):
            break
        found = head("answer", data, at)
        at += size(found)
        length = value(found, "content-length")
        rest = len(data) - at if length is None else int(length)
        if rest and value(request, "method") != "HEAD":
            found.append(Field("body", data[at : at + rest], at))
            at += rest
        made.append(found)
    if at != len(data):
        raise SiteError("the responses are not as long as they say")
    return made


def meaning(side: str, field: Field) -> tuple[str, Meaning]:
    """Its place in the table and what it means; the exact value first.

    Raises SiteError if nothing explains it.
    """
    for key in (
        f"{side} {field.what} {field.value}".lower(), f"{side} {field.what}"
    ):
        if key in MEANINGS:
            return key, MEANINGS[key]
    raise SiteError(
        f"nothing explains {side} {field.what} {field.value!r}: add it to "
        "MEANINGS in tools/site/meanings.toml"
    )


def _render(chosen: dict[str, str], md: Any) -> str:
    """Captured bytes with each field explained."""
    name = chosen["exchange"]
    made = _load(name)
    asked = requests(made.sent)
    sides = {"request": asked, "answer": responses(made.received, asked)}
    show = chosen.get("show")
    if show not in (None, *sides):
        raise SiteError("show is request or answer")
    if show:
        sides = {show: sides[show]}
    seen: set[str] = md.__dict__.setdefault("seven_wire", set())

    def explained(side: str, field: Field) -> tuple[Meaning, bool]:
        """What it means, and whether the page has said so before."""
        key, means = meaning(side, field)
        again = key in seen
        seen.add(key)
        return means, again

    return html(
        "wire", id=uid(md, "wire", name), sides=sides, made=made, size=size,
        explained=explained, file=by_name(made.server).file,
        caption=chosen.get("caption"), prose=partial(prose, md),
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


wire = fence(_render, "exchange", "show caption")
