"""tools.bench.client: the load client for machines without ab."""

import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from tests.marks import Patch, Said
from tools.bench import ab
from tools.bench import client as module
from tools.bench.server import Running, start
from tools.common.launch import Launched, eventually
from tools.servers import ROOT, by_name

CLIENT = (sys.executable, "-m", "tools.bench.client")
NOBODY = "http://127.0.0.1:1/"


def client(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*CLIENT, *words], capture_output=True, text=True, cwd=ROOT,
        timeout=60, check=False,
    )


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with start(by_name("03"), 0.02) as process:
        yield process


@pytest.mark.parametrize("keep_alive", [False, True])
def test_figures_as_ab_prints_them(running: Running, keep_alive: bool) -> None:
    load = ab.Load(5, 50, keep_alive=keep_alive)
    done = client(*load.command(running.url, ()))
    run, ended = ab.parse(done.stdout)
    assert done.returncode == 0
    assert ended
    assert (run.requests, run.failed, run.non_2xx) == (50, 0, 0)
    kept = 50 if keep_alive else 0
    assert f"Keep-Alive requests:    {kept}\n" in done.stdout
    assert run.body_bytes == 249
    assert run.response_bytes and run.response_bytes > 249
    assert run.latency_ms["p50"] >= 20
    assert 0 < (run.requests_per_second or 0) <= 5 / 0.02


def test_it_ends_when_the_time_is_up(running: Running) -> None:
    done = client("-t", "1", "-n", "100000", "-c", "2", running.url)
    run, ended = ab.parse(done.stdout)
    assert ended
    assert run.seconds >= 1
    assert 0 < run.requests < 100_000


@pytest.mark.parametrize(
    ("path", "counted"), [("none", (4, 0, 4)), (NOBODY, (0, 4, 0))]
)
def test_what_goes_wrong_is_counted(
    running: Running, path: str, counted: tuple[int, int, int]
) -> None:
    url = path if path == NOBODY else running.url + path
    run, _ = ab.parse(client("-n", "4", "-c", "2", url).stdout)
    assert (run.requests, run.failed, run.non_2xx) == counted


def test_an_interrupt_prints_what_there_is(running: Running) -> None:
    before = running.cpu()
    words = [*CLIENT, "-n", "100000", "-c", "2", running.url]
    process = Launched(words, cwd=ROOT)
    try:  # until it loads the server, and is at it for a while
        assert eventually(lambda: running.cpu() > before + 0.02, 60)
        process.signal(signal.SIGINT)
        assert process.wait(60) is not None
        run, ended = ab.parse(process.output)
    finally:
        process.kill()
    assert not ended
    assert run.requests > 0


@pytest.mark.parametrize("words", [
    ("-n", "1", "-c", "2", NOBODY), ("-n", "x", NOBODY),
    ("ftp://127.0.0.1/",), ("http://127.0.0.1:port/",), (),
])
def test_nonsense_gives_a_sentence(
    words: tuple[str, ...], monkeypatch: Patch, capsys: Said
) -> None:
    monkeypatch.setattr(sys, "argv", ["client", *words])
    with pytest.raises(SystemExit) as caught:
        module.main()
    assert caught.value.code == 2
    assert "error:" in capsys.readouterr().err
