"""tools.bench.client: the load client for machines without ab."""

import signal
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tools.bench import ab, server
from tools.servers import ROOT, by_name

CLIENT = (sys.executable, "-m", "tools.bench.client")


def client(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CLIENT, *words], capture_output=True, text=True, cwd=ROOT,
        timeout=30, check=False,
    )


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with server.start(by_name("03"), 0.02) as process:
        yield process.url


@pytest.mark.parametrize("keep_alive", [False, True])
def test_figures_as_ab_prints_them(url: str, keep_alive: bool) -> None:
    load = ab.Load(5, 50, keep_alive=keep_alive)
    done = client(*load.command(url, ()))
    report = ab.parse(done.stdout)
    assert done.returncode == 0
    assert report.finished
    assert (report.requests, report.failed, report.non_2xx) == (50, 0, 0)
    assert report.kept_alive == (50 if keep_alive else 0)
    assert report.body_bytes == 249
    assert report.response_bytes is not None
    assert report.response_bytes > 249
    assert report.latency_ms["p50"] >= 20
    assert 0 < report.per_second <= 5 / 0.02


def test_it_ends_when_the_time_is_up(url: str) -> None:
    report = ab.parse(client("-t", "1", "-n", "100000", "-c", "2", url).stdout)
    assert report.finished
    assert 0.9 <= report.seconds < 2
    assert 0 < report.requests <= 100


def test_errors_are_counted(url: str) -> None:
    report = ab.parse(client("-n", "4", "-c", "2", f"{url}none").stdout)
    assert (report.requests, report.non_2xx) == (4, 4)


def test_nobody_listens() -> None:
    done = client("-n", "4", "-c", "2", "http://127.0.0.1:1/")
    report = ab.parse(done.stdout)
    assert (report.requests, report.failed) == (0, 4)


def test_an_interrupt_prints_what_there_is(url: str) -> None:
    process = subprocess.Popen(
        [*CLIENT, "-n", "100000", "-c", "2", url], cwd=ROOT, text=True,
        stdout=subprocess.PIPE,
    )
    assert process.stdout is not None
    try:
        process.stdout.readline()
        time.sleep(0.7)
        process.send_signal(signal.SIGINT)
        text, _ = process.communicate(timeout=10)
    finally:
        process.kill()
        process.wait()
    report = ab.parse(f"ApacheBench, Version 2.3\n{text}")
    assert not report.finished
    assert report.requests > 0


@pytest.mark.parametrize(
    "words",
    [
        ("-n", "1", "-c", "2", "http://127.0.0.1:1/"),
        ("-n", "x", "http://127.0.0.1:1/"),
        ("ftp://127.0.0.1/",),
        ("http://127.0.0.1:port/",),
        (),
    ],
)
def test_nonsense_gives_a_sentence(words: tuple[str, ...]) -> None:
    done = client(*words)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "error:" in done.stderr
