"""./bench.sh --target: what it may load, whom it asks, what it prints."""

import argparse
import builtins
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator

import pytest

from labs.hosts import rig
from tests.marks import Patch, Said
from tests.tools.test_bench_command import refused
from tools.bench import __main__ as command
from tools.bench import target
from tools.bench.ab import Load
from tools.bench.server import Running, free_port, start
from tools.data.results import OWN
from tools.servers import ROOT, by_name

FAR = "http://192.0.2.1:8000/"  # in no network (RFC 5737)
# In a network namespace of its own: a server on a host at the end of a
# cable, and the words of the command line that load it.
FROM_ANOTHER_HOST = """
import subprocess, sys
from labs.hosts import rig
rig.build(1)
host = rig.Host(rig.Case("06", (), (0.0,)), 1)
words = [sys.executable, "-m", "tools.bench", "--target",
         f"http://{host.address}/", "--load", "python", *sys.argv[1:]]
done = subprocess.run(words, stdin=subprocess.DEVNULL)
host.stop()
print(host.server.output)
sys.exit(done.returncode)
"""


@pytest.fixture
def running() -> Iterator[Running]:
    with start(by_name("06"), 0.0) as process:
        yield process


@pytest.fixture
def sent(monkeypatch: Patch) -> list[Load]:
    """The loads that were sent; in truth none is."""
    loads: list[Load] = []

    def keep(options: object, load: Load, console: object) -> int:
        loads.append(load)
        return 0

    monkeypatch.setattr(target, "_load", keep)
    monkeypatch.setattr(command, "_catch_signals", lambda: None)
    return loads


def terminal(monkeypatch: Patch, said: str | None) -> None:
    """Somebody there types this; None: nobody is there."""
    monkeypatch.setattr(sys.stdin, "isatty", lambda: said is not None)
    monkeypatch.setattr(builtins, "input", lambda question: said)


@pytest.mark.parametrize("url", [
    "https://127.0.0.1:8000/", "127.0.0.1:8000", "http://127.0.0.1/",
    "http://127.0.0.1:8000/page", "http://127.0.0.1:8000/?x", "http://:8000/",
    "http://me@127.0.0.1:8000/", "http://127.0.0.1:x/", "http://h:70000/",
    "http://127.0.0.1:8000//", "http://[::1:8000/", "",
])
def test_only_a_host_and_a_port_are_a_target(url: str, capsys: Said) -> None:
    assert "is not http://HOST:PORT/" in refused(["--target", url], capsys)


@pytest.mark.parametrize(("words", "sentence"), [
    ("--only 03", "measures that server alone"), ("--smoke", "not allowed"),
    ("--repeats 2", "alone, once"), ("--output x", "keeps nothing"),
    ("--sketches", "alone"), ("--clients 65", "not a number from 1 to 64"),
])
def test_what_it_is_not_for(words: str, sentence: str, capsys: Said) -> None:
    assert sentence in refused(["--target", FAR, *words.split()], capsys)
    assert "those of --target" in refused(["--yes"], capsys)


def test_a_target_may_be_named_in_every_way() -> None:
    for url in ("http://LOCALHOST:80", "http://localhost:80/"):
        assert target.target(url) == "http://localhost:80/"
    assert target.target("http://[::1]:80/") == "http://[::1]:80/"
    with pytest.raises(argparse.ArgumentTypeError):
        target.target("http://localhost:0/")


@pytest.mark.parametrize(("said", "status"), [
    (" Yes ", 0), ("y", 2), ("", 2), (None, 2),
])
def test_another_machine_needs_a_plain_yes(
    said: str | None, status: int, sent: list[Load], monkeypatch: Patch,
    capsys: Said,
) -> None:
    terminal(monkeypatch, said)
    assert command.main(["--target", FAR]) == status
    assert len(sent) == (status == 0)
    shown = capsys.readouterr()
    assert ("your own" in shown.out) == (said is not None)
    assert shown.err.count("\n") == (status == 2)


def test_the_load_is_small_whatever_is_asked(sent: list[Load]) -> None:
    for words in ((), ("--clients", "64")):
        assert command.main(["--target", FAR, "--yes", *words]) == 0
    usual, most = sent
    assert (usual.clients, usual.requests) == (10, 1000)  # the article's
    assert most.clients == 64 and most.requests <= 4000
    assert usual.seconds == most.seconds == 55


def test_a_name_is_loopback_if_all_its_addresses_are(
    sent: list[Load], monkeypatch: Patch, capsys: Said
) -> None:
    addresses = ["127.0.0.1"]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **more: [
        (2, 1, 6, "", (name, 80)) for name in addresses
    ])
    terminal(monkeypatch, None)
    assert command.main(["--target", "http://here:80/"]) == 0
    addresses.append("192.0.2.1")
    assert command.main(["--target", "http://here:80/"]) == 2
    assert "--yes" in capsys.readouterr().err and len(sent) == 1


def test_a_name_without_an_address(
    monkeypatch: Patch, capsys: Said, sent: list[Load]
) -> None:
    def unknown(*words: object, **more: object) -> None:
        raise OSError

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    assert command.main(["--target", "http://banana:80/", "--yes"]) == 2
    said = capsys.readouterr().err
    assert said == "bench.sh: no address is known for banana\n" and not sent


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "tools.bench", *words, "--load", "python"],
        cwd=ROOT, capture_output=True, text=True, stdin=subprocess.DEVNULL,
        timeout=300, check=False,
    )


def test_a_server_on_loopback_needs_no_yes(running: Running) -> None:
    before = {*OWN.glob("*")}
    done = bench("--target", running.url, "--clients", "2")
    assert done.returncode == 0, done.stdout + done.stderr
    row = next(
        line.split() for line in done.stdout.splitlines()
        if line.split()[:1] == [f"127.0.0.1:{running.port}"]
    )
    _, clients, rate, *_, failed, size, transfer = row
    assert (clients, failed) == ("2", "0")
    numbers = [float(n.replace(",", "")) for n in (rate, size, transfer)]
    assert numbers[2] == pytest.approx(numbers[0] * numbers[1] / 1e3, rel=0.01)
    assert "can be read only where it runs" in done.stdout
    assert {*OWN.glob("*")} == before


def test_nobody_is_there() -> None:
    done = bench("--target", f"http://127.0.0.1:{free_port()}/")
    assert done.returncode == 1 and "no request was answered" in done.stdout


def test_a_server_on_another_host() -> None:
    if sys.platform != "linux" or os.geteuid():
        pytest.skip("a network of its own for the test needs Linux and root")
    if subprocess.run([*rig.entry(), "ip", "link"], check=False,
                      capture_output=True).returncode:
        pytest.skip("no network namespaces here: unshare or ip fails")
    for words, status in (("", 2), ("--yes --clients 3", 0)):
        done = subprocess.run(
            [*rig.entry(), sys.executable, "-c", FROM_ANOTHER_HOST,
             *shlex.split(words)],
            cwd=ROOT, capture_output=True, text=True, timeout=300,
            check=False,
        )
        assert done.returncode == status, done.stdout + done.stderr
        served = re.search(r"(\d+) requests", done.stdout)
        assert served and int(served[1]) == (300 if status == 0 else 0)
    assert "10.77.0.11:8000" in done.stdout
