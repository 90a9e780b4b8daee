"""Captured bytes on a page: none is lost, none unexplained."""

import dataclasses
import json
import re
from html import unescape
from pathlib import Path

import pytest

from tests.site.browsing import Opened, needs_browser, visit
from tests.site.conftest import Render
from tools.bench.experiments.wire import REQUESTS
from tools.data import exchange
from tools.site import wire
from tools.site.errors import SiteError
from tools.site.meanings import MEANINGS


def captured(name: str) -> exchange.Exchange:
    return exchange.load(exchange.REFERENCE / f"{name}.json")


def messages(name: str) -> tuple[list[wire.Message], list[wire.Message]]:
    """What was asked and what was answered."""
    made = captured(name)
    asked = wire.requests(made.sent)
    return asked, wire.responses(made.received, asked)


def shown(name: str, *more: str) -> str:
    return "\n".join(["```wire", f"exchange: {name}", *more, "```", ""])


def dump(html: str) -> list[bytes]:
    """The bytes of each message, read from what the page shows."""
    messages = []
    for part in html.split('class="seven-title"')[1:]:
        cells = re.findall(
            r'__hex2?">(.*?)</span> <span class="seven-wire__text', part
        )
        text = " ".join(re.sub("<[^>]+>", "", cell) for cell in cells)
        messages.append(bytes.fromhex(text))
    return messages


@pytest.mark.parametrize("name", REQUESTS)
def test_no_byte_is_lost(name: str, render: Render) -> None:
    made = captured(name)
    asked, answered = messages(name)
    assert len(asked) == len(answered) == (2 if name == "keep-alive" else 1)
    for side, data in ((asked, made.sent), (answered, made.received)):
        assert b"".join(message.data for message in side) == data
        for field in (f for message in side for f in message.fields):
            end = field.offset + len(field.data)
            assert data[field.offset : end] == field.data
    # And what stands on the page is all of it again.
    on_page = dump(render(shown(name)))
    assert b"".join(on_page[: len(asked)]) == made.sent
    assert b"".join(on_page[len(asked) :]) == made.received


def test_each_field_is_explained_where_it_stands(render: Render) -> None:
    html = render(shown("get"))
    labels = re.findall(r"<dt>([^<]*)", html)
    assert [x.strip() for x in labels] == [
        "Method", "Target", "Version", "Host", "User-Agent", "Accept",
        "Empty line", "Version", "Status", "Reason", "Date", "Content-Type",
        "Content-Length", "Connection", "Empty line", "Body",
    ]
    assert html.count("rfc-editor.org/rfc/rfc91") == len(labels)
    assert '<code>GET</code> <span class="seven-wire__marks">' in html
    assert html.count(">SP</span>") == 4
    assert html.count(">CR</span>") == 1 + 3 + 1 + 1 + 4 + 1
    page = re.search(r'__body"><code>(.*?)</code>', html, re.DOTALL)
    assert page
    assert captured("get").received.endswith(unescape(page[1]).encode())
    assert "data-seven-prose" not in html


def test_what_was_explained_is_folded_when_it_comes_again(
    render: Render,
) -> None:
    once = render(shown("get"))
    twice = render(shown("get") + "\n" + shown("not-found"))
    assert once.count("<details") == 1  # the body's bytes
    second = twice[twice.index('id="wire-not-found"') :]
    open_ones = re.findall(
        r'__field"><dt>([^ <]*)', second
    )  # the others hold what they say in a details
    assert open_ones == ["Target", "Status"]
    assert twice == render(shown("get") + "\n" + shown("not-found"))


def test_one_side_and_words_of_the_page(render: Render) -> None:
    html = render(shown("get", "show: request", "caption: See **this**."))
    assert "The client sends 78 bytes" in html
    assert "The server" not in html
    assert "<figcaption>See <strong>this</strong>. Captured on" in html
    html = render(shown("keep-alive", "show: answer"))
    assert "bytes: answer 2 of 2" in html
    assert "ended its side" in render(shown("http10-keep-alive"))


def test_every_meaning_is_needed_and_leads_somewhere() -> None:
    used = {
        wire.meaning(message.side, field)[0]
        for name in REQUESTS for side in messages(name)
        for message in side for field in message.fields
    }
    assert used == set(MEANINGS)
    for means in MEANINGS.values():
        assert means.rfc in (9110, 9112)
        assert re.fullmatch(r"(\d+|C)(\.\d+)*", means.section)


GET = b"GET / HTTP/1.1\r\n\r\n"


@pytest.mark.parametrize(
    ("sent", "received", "why"),
    [
        (b"GET /", b"", "no start line at byte 0"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n", b"", "no header field at byte 25"),
        (b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\na", b"",
         "no start line at byte 38"),
        (GET, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na",
         "not as long as they say"),
        (GET.replace(b"GET", b"HEAD"),
         b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
         "not as long as they say"),
    ],
)  # fmt: skip
def test_bytes_that_cannot_be_cut(
    sent: bytes, received: bytes, why: str
) -> None:
    with pytest.raises(SiteError, match=why):
        wire.responses(received, wire.requests(sent))


def test_a_body_without_a_length_goes_on_to_the_end() -> None:
    asked = wire.requests(b"GET / HTTP/1.0\r\n\r\n")
    (response,) = wire.responses(b"HTTP/1.0 200 OK\r\n\r\nabc", asked)
    assert response.fields[-1].data == b"abc"


def test_nothing_stands_unexplained_and_a_broken_file_ends_the_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, render: Render
) -> None:
    strange = dataclasses.replace(
        captured("get"), name="strange",
        sent=b"GET / HTTP/1.1\r\nX-Strange: 1\r\n\r\n",
    )
    monkeypatch.setattr(exchange, "REFERENCE", tmp_path)
    file = strange.save(tmp_path)
    with pytest.raises(Exception, match="nothing explains request x-strange"):
        render(shown("strange"))
    file.write_text(json.dumps({"schema": 9}))
    with pytest.raises(Exception, match="capture again"):
        render(shown("strange"))


@needs_browser
@pytest.mark.thorough
def test_bytes_in_a_row(opened: Opened, site: Path) -> None:
    """Eight where it is narrow, else sixteen; nothing runs out."""
    page = opened("light", width=375)
    visit(page, site / "reference" / "http.html")
    assert page.locator(".seven-wire").count() >= 2
    page.evaluate(
        "document.querySelectorAll('details').forEach(d => d.open = true)"
    )
    row = page.locator(".seven-wire__row", has_text="Host").first
    for width, columns in ((375, 8), (1280, 16)):
        page.set_viewport_size({"width": width, "height": 900})
        tops = row.locator(".seven-wire__hex, .seven-wire__hex2").evaluate_all(
            "cells => cells.map(c => c.getBoundingClientRect().top)"
        )
        assert len(tops) == 2
        assert (tops[0] == tops[1]) == (columns == 16)
        beyond = page.locator(".seven-wire__row").evaluate_all(
            "rows => rows.filter(r => r.scrollWidth > r.clientWidth).length"
        )
        assert beyond == 0
