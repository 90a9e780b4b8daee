"""tools.bench.x_static: the page, the servers of the comparison, the rows."""

import argparse
import http.client
import io
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from tools.bench import wrk
from tools.bench import x_static as x
from tools.bench.server import ServerError
from tools.data.results import Machine, Results, Run, load
from tools.servers import ROOT

MACHINE = Machine("CPU", 2, 10**9, "Linux 6.1", "CPython 3.11.7", 1024)
OUTPUT = """\
Running 10s test @ http://127.0.0.1:8000/index.html
  2 threads and 8 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     1.50ms    2.00ms  40.00ms   90.00%
    Req/Sec     2.00k   100.00     2.50k    70.00%
  Latency Distribution
     50%    1.20ms
     75%    1.70ms
     90%    2.10ms
     99%    9.00ms
  40000 requests in 10.01s, 263.98MB read
Requests/sec:   3996.00
Transfer/sec:     26.37MB
"""


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Path]:
    yield x.make_site(tmp_path)
    left = psutil.Process().children(recursive=True)
    assert left == [], "a process is left behind"


def empty() -> Results:
    return Results(
        "./bench.sh static", "static", "2026-01-01T00:00:00+00:00", "",
        MACHINE, {"ab": "2.3"}, "ab",
    )


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    x.add_options(parser)
    parser.add_argument("--repeats", type=int)
    return parser.parse_args(words)


def test_the_page_is_always_the_same_and_has_its_size() -> None:
    assert x.page() == x.page()
    assert len(x.page()) == x.PAGE_BYTES
    assert x.page().decode("ascii").endswith("<!-- the end -->\n")


@pytest.mark.parametrize(
    ("case", "kept"),
    [(x.CLOSING, False), (x.KEEPING, True), (x.NO_DELAY, True)],
)
def test_http_server_serves_the_page(
    site: Path, case: x.Case, kept: bool
) -> None:
    with x.started(case, site) as process:
        x.check(process.port)
        client = http.client.HTTPConnection("127.0.0.1", process.port)
        client.request("GET", "/")
        client.getresponse().read()
        assert (client.sock is not None) == kept == case.keep_alive
        client.close()
        assert process.status() is None
        assert str(site) not in x.shown(process.command, site)


@pytest.mark.skipif(not shutil.which("nginx"), reason="nginx is needed")
def test_nginx_serves_the_page(site: Path) -> None:
    with x.started(x.ENGINE_X, site) as process:
        x.check(process.port)
        assert len(process.processes()) == 2


@pytest.mark.skipif(
    not (shutil.which("node") and x.node_server().is_file()),
    reason="./bench.sh static has not installed node's http-server",
)
def test_nodes_http_server_serves_the_page(site: Path) -> None:
    with x.started(x.NODE, site) as process:
        x.check(process.port)


def test_a_server_that_does_not_start_says_why(site: Path) -> None:
    with pytest.raises(ServerError, match="the server does not start: no"):
        x.Program(["sh", "-c", "echo no such hat >&2; exit 3"], 1)
    with pytest.raises(ServerError, match="cannot be run"):
        x.Program(["/nowhere/nginx"], 1)


def test_another_page_is_not_measured(site: Path) -> None:
    (site / x.PAGE_NAME).write_text("another")
    one = x.measure(x.CLOSING, site, wrk.Load(1, 1), site.parent)
    assert one.error == (
        "GET /index.html is answered with status 200 and 7 bytes, not "
        "with the page"
    )


@pytest.mark.parametrize("words", [[], ["1"], ["x", "DIR"], ["1", "2", "3"]])
def test_the_patched_http_server_explains_itself(words: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, ROOT / x.STATIC_HTTP, *words],
        capture_output=True, text=True, check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("usage: ")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("text", ["0", "-3", "long"])
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises((argparse.ArgumentError, SystemExit)):
        options("--seconds", text)


def test_figures_of_wrk_are_kept() -> None:
    one = Run("")
    x.fill(one, OUTPUT, False)
    assert one.error is None
    assert one.requests == 40_000
    assert one.requests_per_second == 3996.0
    assert (one.latency_ms["mean"], one.latency_ms["p99"]) == (1.5, 9.0)
    assert one.body_bytes == x.PAGE_BYTES
    assert 6_900 < (one.response_bytes or 0) < 6_940


@pytest.mark.parametrize(
    ("text", "late", "words"),
    [
        ("", False, "not wrk's"),
        (OUTPUT, True, "did not end by itself"),
        (OUTPUT + "\n  Non-2xx or 3xx responses: 7\n", False, "7 answers"),
    ],
)
def test_a_bad_run_says_why(text: str, late: bool, words: str) -> None:
    one = Run("")
    x.fill(one, text, late)
    assert words in (one.error or "")


def test_without_wrk_there_is_one_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr(wrk, "version", lambda: None)
    status = x.run(options(), empty(), tmp_path, Console(file=io.StringIO()))
    assert status == 2
    said = capsys.readouterr().err
    assert "wrk" in said and said.count("\n") == 1


def test_what_is_missing_is_a_row_that_says_how_to_get_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    screen = Console(file=io.StringIO())
    assert "install Node.js" in x.missing(x.NODE, empty(), screen)
    assert "apt-get install" in x.missing(x.ENGINE_X, empty(), screen)
    assert x.missing(x.CLOSING, empty(), screen) == ""


def test_npm_that_fails_is_a_row_too(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("node", "npm"):
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(x, "PEERS", tmp_path / ".node-peers")
    screen = Console(file=io.StringIO())
    assert x.missing(x.NODE, empty(), screen) == (
        "npm could not install it: npm install --prefix .node-peers "
        "http-server@14.1.1"
    )


def test_all_is_measured_interleaved_and_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[x.Case] = []

    def measure(
        case: x.Case, site: Path, load: wrk.Load, folder: Path
    ) -> Run:
        order.append(case)
        if case is x.KEEPING:
            return Run("", error="it is bad")
        one = Run("", cpu_user=1.0, cpu_system=1.0, peak_memory=10**7)
        x.fill(one, OUTPUT, False)
        return one

    monkeypatch.setattr(wrk, "version", lambda: "4.1.0")
    monkeypatch.setattr(x, "measure", measure)
    monkeypatch.setattr(
        x, "missing", lambda case, *_: "get it" if case is x.NODE else ""
    )
    results, file = empty(), io.StringIO()
    screen = Console(file=file, width=120)
    assert x.run(options("--repeats", "2"), results, tmp_path, screen) == 1
    half = len(order) // 2
    assert order[:half] == order[half:]
    assert x.NODE not in order
    saved = load(tmp_path)
    assert (saved.load, saved.tools) == ("wrk", {"wrk": "4.1.0"})
    by_status = {p.status: p for p in saved.points}
    assert by_status["skipped"].reason == "get it"
    assert by_status["failed"].reason == "it is bad"
    assert by_status["ok"].median("cpu_ms") == 0.05
    closing = saved.points[0]
    assert (closing.server, closing.keep_alive) == ("http.server", False)
    text = file.getvalue()
    assert "get it" in text and "it is bad" in text and "3,996" in text
