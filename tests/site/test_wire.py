"""Captured bytes on a page: none is lost, none unexplained."""

import dataclasses
import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import (  # type: ignore[import-untyped]
    Axe,
)
from playwright.sync_api import Browser

from tests.site.browsing import Scheme, needs_browser, open_page, visit
from tests.site.conftest import Render
from tools.bench.experiments.wire import REQUESTS
from tools.data import exchange
from tools.site import wire
from tools.site.errors import SiteError
from tools.site.meanings import MEANINGS


def captured(name: str) -> exchange.Exchange:
    return exchange.load(exchange.REFERENCE / f"{name}.json")


def shown(name: str, *more: str) -> str:
    return "\n".join(["```wire", f"exchange: {name}", *more, "```", ""])


class Dump(HTMLParser):
    """The bytes of each message, read from what the page shows."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.messages: list[bytes] = []
        self.depth = 0  # of spans within a cell of hex
        self.feed(html)

    def handle_starttag(
        self, tag: str, attrs: list[tuple[str, str | None]]
    ) -> None:
        kind = dict(attrs).get("class") or ""
        if kind == "seven-title":
            self.messages.append(b"")
        if tag == "span" and (
            self.depth or kind.startswith("seven-wire__hex")
        ):
            self.depth += 1

    def handle_endtag(self, tag: str) -> None:
        self.depth -= tag == "span" and self.depth > 0

    def handle_data(self, data: str) -> None:
        if self.depth:
            self.messages[-1] += bytes.fromhex(data)


@pytest.mark.parametrize("name", REQUESTS)
def test_no_byte_is_lost(name: str, render: Render) -> None:
    made = captured(name)
    asked = wire.requests(made.sent)
    answered = wire.answers(made.received, asked)
    assert len(asked) == len(answered) == (2 if name == "keep-alive" else 1)
    assert b"".join(m.data for m in asked) == made.sent
    assert b"".join(m.data for m in answered) == made.received
    for side, data in ((asked, made.sent), (answered, made.received)):
        for field in (f for message in side for f in message.fields):
            end = field.offset + len(field.data)
            assert data[field.offset : end] == field.data
    # And what stands on the page is all of it again.
    on_page = Dump(render(shown(name))).messages
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
    used = set()
    for name in REQUESTS:
        made = captured(name)
        asked = wire.requests(made.sent)
        for message in (*asked, *wire.answers(made.received, asked)):
            used |= {
                wire.meaning(message.side, field)[0]
                for field in message.fields
            }
    assert used == set(MEANINGS)
    for means in MEANINGS.values():
        assert means.rfc in (9110, 9112)
        assert re.fullmatch(r"(\d+|C)(\.\d+)*", means.section)


@pytest.mark.parametrize(
    ("sent", "received", "why"),
    [
        (b"GET /", b"", "no start line at byte 0"),
        (b"GET / HTTP/1.1\r\nHost: a\r\n", b"", "no header field at byte 25"),
        (b"GET / HTTP/1.1\r\nHost : a\r\n\r\n", b"", "no header field at"),
        (
            b"POST / HTTP/1.1\r\nContent-Length: 1\r\n\r\na", b"",
            "a request with a body",
        ),
        (b"GET / HTTP/1.1\r\n\r\n", b"HTTP/1.1 200\r\n", "no start line"),
        (
            b"GET / HTTP/1.1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\na",
            "the bytes end within the body",
        ),
        (
            b"GET / HTTP/1.1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nab",
            "more was answered than asked",
        ),
        (
            b"HEAD / HTTP/1.1\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\na",
            "more was answered than asked",
        ),
    ],
)
def test_bytes_that_cannot_be_cut(
    sent: bytes, received: bytes, why: str
) -> None:
    with pytest.raises(SiteError, match=why):
        wire.answers(received, wire.requests(sent))


def test_a_body_without_a_length_goes_on_to_the_end() -> None:
    asked = wire.requests(b"GET / HTTP/1.0\r\n\r\n")
    (answer,) = wire.answers(b"HTTP/1.0 200 OK\r\n\r\nabc", asked)
    assert answer.fields[-1].data == b"abc"


@pytest.fixture
def strange(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one exchange that has a field nobody explains."""
    made = dataclasses.replace(
        captured("get"), name="strange",
        sent=b"GET / HTTP/1.1\r\nX-Strange: 1\r\n\r\n",
    )
    monkeypatch.setattr(exchange, "REFERENCE", tmp_path)
    return made.save(tmp_path)


def test_nothing_stands_unexplained(strange: Path, render: Render) -> None:
    with pytest.raises(Exception, match="nothing explains request x-strange"):
        render(shown("strange"))


def test_a_broken_file_ends_the_build(strange: Path, render: Render) -> None:
    strange.write_text(json.dumps({"schema": 9}))
    with pytest.raises(Exception, match="capture again"):
        render(shown("strange"))


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("", "'exchange' is missing"),
        ("exchange: nobody", "no exchange is called 'nobody'; there are bad"),
        ("exchange: ../get", "no exchange is called"),
        ("exchange: get\nshow: both", "show is request or answer"),
        ("exchange: get\nsides: both", "no option 'sides'"),
    ],
)
def test_what_is_no_wire_fence_ends_the_build(
    body: str, why: str, render: Render
) -> None:
    with pytest.raises(Exception, match=why):
        render(f"```wire\n{body}\n```\n")


@needs_browser
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_page_is_accessible(
    browser: Browser, site: Path, scheme: Scheme
) -> None:
    page, trouble = open_page(browser, scheme)
    visit(page, site / "reference" / "http.html")
    assert page.locator(".seven-wire").count() >= 2
    page.evaluate(
        "document.querySelectorAll('details').forEach(d => d.open = true)"
    )
    done = Axe().run(page, options={"preload": False})
    assert not done.response["violations"], done.generate_report()
    page.context.close()
    assert not trouble


@needs_browser
@pytest.mark.parametrize(("width", "columns"), [(375, 8), (1280, 16)])
def test_bytes_in_a_row(
    browser: Browser, site: Path, width: int, columns: int
) -> None:
    """Eight where it is narrow, else sixteen; nothing runs out."""
    page, trouble = open_page(browser, "light", width=width, script=False)
    page.goto((site / "reference" / "http.html").as_uri())
    page.evaluate(
        "document.querySelectorAll('details').forEach(d => d.open = true)"
    )
    row = page.locator(".seven-wire__row", has_text="Host").first
    tops = row.locator(
        ".seven-wire__hex, .seven-wire__hex2"
    ).evaluate_all("cells => cells.map(c => c.getBoundingClientRect().top)")
    assert len(tops) == 2
    assert (tops[0] == tops[1]) == (columns == 16)
    beyond = page.locator(".seven-wire__row").evaluate_all(
        "rows => rows.filter(r => r.scrollWidth > r.clientWidth).length"
    )
    assert beyond == 0
    page.context.close()
    assert not trouble
