"""./bench.sh record: what it keeps, what it says, what it leaves alone."""

import os
import shlex
import shutil
import signal
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from tests.marks import Patch, Said
from tests.tools.experiment import options
from tools.bench import preflight
from tools.bench.experiments import record
from tools.bench.recording.burst import BurstError
from tools.bench.recording.timeline import TimelineError
from tools.bench.server import ServerError
from tools.bench.strace import StraceError
from tools.common.launch import Launched, eventually
from tools.data import recording
from tools.data.recording import CLIENTS, Recording
from tools.data.results import Results
from tools.servers import ROOT, SERVERS, Server, by_name

MISSING = preflight.no_strace()
# .ci/run installs strace and is root: there it must not be missing.
live = pytest.mark.skipif(
    MISSING is not None and "CI" not in os.environ, reason=str(MISSING)
)
SECONDS = 120  # for what takes a few
MADE = recording.load(recording.REFERENCE / "03.json")


def made(server: str, length: int = 1190) -> Recording:
    """Two clients at once at this server, for so many µs."""
    clients = [replace(each, done=length) for each in MADE.clients[:2]]
    return replace(MADE, server=server, clients=clients)


class Played:
    """Runs the command, without servers and strace."""

    def __init__(self, monkeypatch: Patch, place: Path, capsys: Said) -> None:
        self.own, self.reference = place / "own", place / "reference"
        monkeypatch.setattr(recording, "OWN", self.own)
        monkeypatch.setattr(recording, "REFERENCE", self.reference)
        monkeypatch.setattr(preflight, "no_strace", lambda: None)
        monkeypatch.setattr(sys, "platform", "linux")
        monkeypatch.setattr(record, "unlike", lambda *of: "")
        monkeypatch.setattr(record, "attempt", self.attempt)
        self.capsys = capsys
        self.text = ""
        self.tried: list[str] = []

    def attempt(self, server: Server, results: Results) -> Recording:
        self.tried.append(server.name)
        end = next(self.ends, 1190)
        if isinstance(end, BaseException):
            raise end
        return made(server.name, end)

    def run(self, words: str, *ends: int | BaseException) -> int:
        """The attempts end so: after so many µs, or with a fault."""
        self.ends = iter(ends)
        status = record.run(options(record, *shlex.split(words)))
        self.text = " ".join(self.capsys.readouterr().out.split())
        return status


@pytest.fixture
def played(monkeypatch: Patch, tmp_path: Path, capsys: Said) -> Played:
    return Played(monkeypatch, tmp_path, capsys)


def names(folder: Path) -> list[str]:
    return sorted(file.stem for file in folder.glob("*"))


def test_where_each_server_is_kept(played: Played, tmp_path: Path) -> None:
    assert played.run("--only 02,07") == 0
    assert played.tried == ["02", "07", "07-emulated"]
    assert names(played.own) == sorted(played.tried)
    assert recording.load(played.own / "02.json") == made("02")
    assert not played.reference.exists()
    assert "last after 1 ms; in service at once: 2;" in played.text
    assert played.run("--reference") == 0
    assert len(names(played.reference)) == len(SERVERS)
    other = tmp_path / "other"
    words = shlex.join(["--only", "2", "--output", str(other)])
    assert played.run(words) == 0
    assert names(other) == ["02"]
    assert f"The recordings: {other}" in played.text
    # What is there already is not touched.
    (other / "02.json").write_text("precious")
    assert played.run(words) == 2
    assert "a folder that holds recordings" in played.text
    assert (other / "02.json").read_text() == "precious"


WRONG = TimelineError("no [match]")


@pytest.mark.parametrize(("ends", "status", "said", "tried", "kept"), [
    # Of 01, 02 and 04, in this order.
    ([9, BurstError("x"), WRONG, StraceError("not yet"),
      psutil.NoSuchProcess(7), 9, 9], 0, "The recordings: ", 5, "01 02 04"),
    ([9, *[WRONG] * 5, 9], 1,
     "02: not recorded in 5 attempts: no [match].", 5, "01 04"),
    ([9, ServerError("the server does not start: oh"), 9], 1,
     "02: the server does not start: oh.", 1, "01 04"),
    ([9, StraceError("strace could not attach: Operation not permitted")], 1,
     "--cap-add=SYS_PTRACE", 1, "01"),
    ([KeyboardInterrupt()], 130,
     "Interrupted before anything was recorded.", 0, ""),
    ([9, KeyboardInterrupt()], 130,
     "Interrupted: what is named above is kept.", 1, "01"),
], ids=["again", "each time", "no start", "forbidden", "at once", "later"])
def test_a_fault_is_one_sentence_and_harms_no_other(
    played: Played, ends: list[int | BaseException], status: int, said: str,
    tried: int, kept: str,
) -> None:
    played.own.mkdir()
    (played.own / "02.json").write_text("from before")
    assert played.run("--only 1,2,4", *ends) == status
    assert said in played.text
    assert played.tried.count("02") == tried
    again = (played.own / "02.json").read_text() != "from before"
    assert names(played.own) == sorted({*kept.split(), "02"})
    assert again == ("02" in kept)


@pytest.mark.parametrize("reference", [False, True])
def test_another_shape_is_kept_with_a_word_but_no_reference(
    played: Played, reference: bool, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(record, "unlike", lambda *of: "2 of 20")
    words = "--only 2" + " --reference" * reference
    assert played.run(words, 9000, 4000, 2000, 8000, 3000) == reference
    assert played.tried == ["02"] * 5
    assert "02: 2 of 20: this machine is too busy." in played.text
    assert names(played.reference) == []
    if not reference:  # the best of them
        assert recording.load(played.own / "02.json").length == 2000


@pytest.mark.parametrize(("name", "length", "sentence"), [
    ("04", 1190, "2 requests at once instead of 1"),
    ("06", 220_001, "it took 220 ms, more than 220"), ("06", 220_000, ""),
])
def test_a_recording_unlike_its_server(
    monkeypatch: Patch, name: str, length: int, sentence: str
) -> None:
    if name == "06":
        monkeypatch.setattr(record, "promised", lambda server: 2)
    assert record.unlike(by_name(name), made(name, length)) == sentence


@pytest.mark.parametrize(("words", "platform", "path", "sentence"), [
    ("", "darwin", "x", "strace, which is for Linux: the site shows"),
    ("", "linux", None, "sudo apt-get install strace"),
    ("", "linux", "x", "sudo sysctl kernel.yama.ptrace_scope=0"),
    ("--repeats 3", "linux", "x", "leave out --repeats"),
])
def test_one_sentence_says_what_to_do(
    monkeypatch: Patch, words: str, platform: str, path: str | None,
    sentence: str,
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(shutil, "which", lambda name: path)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(Path, "read_text", lambda *words, **more: "1")
    chosen = options(record, *words.split())
    status, said = record.impossible(chosen, recording.OWN)
    assert status == 1 + bool(words)
    assert sentence in said and "\n" not in said


# For real -----------------------------------------------------------------


@live
@pytest.mark.thorough
def test_servers_are_recorded(tmp_path: Path, monkeypatch: Patch) -> None:
    """Side by side: most of it is waiting."""
    # Who serves whom is looked up during the delay: beside other tests a
    # tenth of a second may be over before the first look.
    monkeypatch.setattr(record, "DELAY", 1.0)
    results = Results(
        "./bench.sh record", "record", "2026-01-01T00:00:00+00:00", "abc",
        MADE.machine, {"strace": "6.1", "psutil": "7"}, "ab",
    )

    def check(server: Server) -> None:
        for _ in range(3):  # there may be little time
            found, fault = record.record(server, results)
            if found:
                break
        assert found is not None, fault
        file = found.save(tmp_path)
        assert recording.load(file) == found
        assert file.stat().st_size <= recording.MOST_BYTES
        assert found.peak == record.promised(server) or fault
        assert found.command.startswith(f"python3 {server.file} --delay 1")
        assert "--port" not in found.command
        assert found.tools == {"strace": "6.1"}
        assert len(found.clients) == CLIENTS

    servers = [by_name(n) for n in ("03", "05-threads", "06-executor", "07")]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(check, servers))


@live
@pytest.mark.thorough
def test_an_interrupt_leaves_nobody_behind(tmp_path: Path) -> None:
    process = Launched([
        sys.executable, "-m", "tools.bench", "record", "--no-site",
        "--output", str(tmp_path / "out"),
    ], cwd=ROOT)
    try:  # until server and strace are there
        assert eventually(lambda: len(process.processes()) >= 3, SECONDS)
        _, *below = process.processes()
        process.signal(signal.SIGINT)
        assert process.wait(SECONDS) == 130
        said = process.output + process.complaints
    finally:
        process.kill()
    assert "Interrupted" in said
    assert not psutil.wait_procs(below, 30)[1]
