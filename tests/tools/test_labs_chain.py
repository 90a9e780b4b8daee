"""tools.bench.labs_chain: the numbers, the servers, and what is a fault."""

import argparse
import contextlib
import io
import shutil
import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from tools.bench import labs_chain as x
from tools.bench.ab import Load
from tools.bench.peers import number, start
from tools.bench.server import ServerError
from tools.data.results import Machine, Results, Run, load
from tools.servers import ROOT

MACHINE = Machine("CPU", 2, 10**9, "Linux 6.1", "CPython 3.11.7", 1024)
LOAD = "ab" if shutil.which("ab") else "python"
KNOWN = 2845218640  # where the benchmark of 2010 says that it ends


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    x.add_options(parser)
    parser.add_argument("--repeats", type=int)
    return parser.parse_args(words)


def entry(name: str) -> x.Entry:
    return next(e for e in x.ENTRIES if e.peer.name == name)


def test_ten_thousand_steps_end_where_they_did_in_2010() -> None:
    assert number.after(10_000) == KNOWN
    assert x.FETCHES == 10_000


def test_head_and_body_have_44_bytes_each() -> None:
    text = number.answer(b"GET / HTTP/1.0\r\n\r\n")
    head, _, body = text.partition(b"\r\n\r\n")
    assert len(head) + 4 == len(body) == 44
    assert b'"/1013904223"' in body
    text = number.answer(b"GET /1013904223 HTTP/1.0\r\n\r\n")
    assert b'"/%d"' % number.following(1013904223) in text


def test_coroutines_is_measured(tmp_path: Path) -> None:
    """The chain and the parallel load, against the file of the lab."""
    if start.missing([entry("coroutines").peer], lambda said: None):
        pytest.skip("the environment of the peers cannot be made")
    results = Results(
        "./bench.sh labs chain", "labs-chain", "2026-01-01T00:00:00+00:00",
        "", MACHINE, {}, LOAD,
    )
    said = io.StringIO()
    status = x.run(
        options("--servers", "coroutines", "--fetches", "50", "--requests",
                "200", "--chain-clients", "10", "--repeats", "1"),
        results, tmp_path, Console(file=said, width=150),
    )
    assert status == 0, said.getvalue()
    point = load(tmp_path).points[0]
    one = point.runs[0]
    assert (point.server, point.variant) == ("coroutines", "our own loop")
    assert one.requests == 200 and one.requests_per_second
    assert one.figure("cpu_ms")
    assert one.extra["chain_end"] == number.after(50)
    assert one.extra["chain_fetches"] == 50
    assert one.extra["chain_per_second"] > 0
    assert one.extra["chain_cpu_ms"] > 0
    assert (one.body_bytes, one.response_bytes) == (44, 88.0)
    assert str(ROOT) not in (tmp_path / "results.json").read_text()


@pytest.mark.skipif(not shutil.which("node"), reason="node is not here")
def test_node_follows_the_same_numbers() -> None:
    with x.begin(entry("node").peer) as process:
        assert x.chain(process.port, 100) == number.after(100)


@contextlib.contextmanager
def answering(*answers: bytes) -> Iterator[int]:
    """A server that gives these answers, one a connection; its port."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for answer in answers:
                sock, _ = listener.accept()
                with sock:
                    sock.recv(4096)
                    sock.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[1]
        thread.join(60)


def page(named: int) -> bytes:
    return number.HEAD + number.BODY % named


def test_a_good_chain() -> None:
    first = number.following(0)
    second = number.following(first)
    with answering(page(first), page(second)) as port:
        assert x.chain(port, 2) == second


@pytest.mark.parametrize(
    ("second", "says"),
    [
        (page(number.following(0)), "fetch 2: page 1013904223 names 10139"),
        (page(number.after(3)), "fetch 2: page 1013904223 names"),
        (b"HTTP/1.0 500 Error\r\n\r\n", "fetch 2 has no page"),
        (b"", "fetch 2 has no page"),
    ],
)
def test_a_page_that_is_skipped_or_wrong_fails_the_run(
    second: bytes, says: str
) -> None:
    with (
        answering(page(number.following(0)), second) as port,
        pytest.raises(ServerError, match=says),
    ):
        x.chain(port, 2)


def test_nobody_there_is_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    with pytest.raises(ServerError, match="fetch 1 failed: Connection ref"):
        x.chain(port, 1)


OUTPUT = """\
This is ApacheBench, Version 2.3 <$Revision: 1 $>
Document Length:        44 bytes
Time taken for tests:   1.000 seconds
Complete requests:      {0}
Failed requests:        0
Total transferred:      8800 bytes
Requests per second:    100.00 [#/sec] (mean)
Finished 100 requests
"""


def test_every_request_must_be_answered() -> None:
    whole, part = Run(""), Run("")
    x.fill(whole, OUTPUT.format(100), False, Load(10, 100))
    assert whole.error is None and whole.requests == 100
    x.fill(part, OUTPUT.format(99), False, Load(10, 100))
    assert part.error == "1 of 100 requests were not answered"
    x.fill(part, "", False, Load(10, 100))
    assert part.error == "the output is not ab's"


def test_what_cannot_be_had_is_skipped_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        start, "missing", lambda peers, say: {"node": "no node: get one"}
    )
    results = Results("", "labs-chain", "", "", MACHINE, {}, LOAD)
    said = io.StringIO()
    status = x.run(
        options("--servers", "node"), results, tmp_path,
        Console(file=said, width=150),
    )
    assert status == 0
    assert [(p.status, p.reason) for p in results.points] == [
        ("skipped", "no node: get one")
    ]
    assert "no node: get one" in said.getvalue()


def test_servers_by_name() -> None:
    names = [e.peer.name for e in x.entries("node, coroutines")]
    assert names == ["coroutines", "node"]
    for words in ("apache", ""):
        with pytest.raises(argparse.ArgumentTypeError):
            x.entries(words)
    assert {e.peer.name for e in x.ENTRIES} == {
        "coroutines", "asyncio", "gevent", "eventlet", "tornado", "node",
    }
