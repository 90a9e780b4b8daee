"""``./bench.sh labs``: chain, frames and gil, and what is kept of them."""

import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from tests.marks import Patch, Said
from tests.tools.experiment import answering, options, run, session
from tools.bench import interpreters, preflight
from tools.bench.experiments import chain, frames, gil, labs
from tools.bench.experiments.lab import LabError, said_by
from tools.bench.interpreters import Interpreter, InterpreterError, identify
from tools.bench.peers import number, start
from tools.bench.server import ServerError
from tools.data import raw
from tools.data.results import MORE_SUITES
from tools.servers import ROOT

THIS = identify(sys.executable)
HAS_CC = sys.platform == "linux" and shutil.which("cc") is not None
needs_cc = pytest.mark.skipif(not HAS_CC, reason="there is no cc for Linux")


def python(label: str, free: bool = False) -> Interpreter:
    return Interpreter("/a/python", label, f"{label}.1".replace("t", ""), free)


# A lab as a program -------------------------------------------------------


@pytest.mark.parametrize(("words", "says"), [
    ([sys.executable, frames.LAB, "--size", "0"], "frame of nothing"),
    (["/nowhere/python3"], "/nowhere/python3: No such file"),
    (["false"], "the lab ended with status 1"),
    (["sleep", "1000"], "it took more than 0 s"),
])
def test_a_lab_that_fails_is_a_sentence(words: list[str], says: str) -> None:
    seconds = 0.1 if words[0] == "sleep" else 60.0
    with pytest.raises(LabError, match=says) as caught:
        said_by(words, seconds)
    assert "\n" not in str(caught.value)


# chain --------------------------------------------------------------------


def test_ten_thousand_steps_end_where_they_did_in_2010() -> None:
    assert number.after(chain.FETCHES) == 2845218640
    assert chain.FETCHES == 10_000


@pytest.mark.thorough
def test_the_chain_and_the_parallel_load(tmp_path: Path) -> None:
    words = ("--servers", "coroutines,node", "--fetches", "50",
             "--requests", "200", "--chain-clients", "10", "--repeats", "1")
    missing = start.missing([chain.PEERS["coroutines"]], print)
    if missing:
        pytest.skip("the environment of the peers cannot be made")
    status, kept = run(labs, tmp_path, "chain", *words)
    assert status == 0
    for point in kept.points:
        if point.status == "skipped":  # there is no node here
            continue
        (one,) = point.runs
        assert one.requests == 200 and one.requests_per_second
        assert one.figure("cpu_ms")
        assert one.extra["chain_end"] == number.after(50)
        assert one.extra["chain_per_second"] > 0
        assert (one.body_bytes, one.response_bytes) == (44, 88.0)
    assert kept.points[0].variant == "our own loop"
    assert str(ROOT) not in (tmp_path / "results.json").read_text()


def page(named: int) -> bytes:
    return number.HEAD + number.BODY % named


@pytest.mark.parametrize(("second", "says"), [
    (page(number.after(2)), ""),
    (page(number.following(0)), "fetch 2: page 1013904223 names 10139"),
    (page(number.after(3)), "fetch 2: page 1013904223 names"),
    (b"HTTP/1.0 500 Error\r\n\r\n", "fetch 2 has no page"),
    (b"", "fetch 2 has no page"),
])
def test_a_page_that_is_skipped_or_wrong_fails_the_run(
    second: bytes, says: str
) -> None:
    port = answering(page(number.following(0)), second)
    if not says:
        assert chain.chain(port, 2) == number.after(2)
        return
    with pytest.raises(ServerError, match=says):
        chain.chain(port, 2)
    with pytest.raises(ServerError, match="fetch 1 failed: Connection ref"):
        chain.chain(1, 1)  # nobody is there


def test_what_cannot_be_had_is_skipped_with_the_reason(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(
        start, "missing", lambda peers, say: {"node": "no node: get one"}
    )
    status, kept = run(labs, tmp_path, "chain", "--servers", "node")
    assert status == 0
    (point,) = kept.points
    assert (point.status, point.reason) == ("skipped", "no node: get one")


# gil ----------------------------------------------------------------------


@pytest.mark.parametrize("cores", sorted({1, preflight.core_count()}))
def test_a_round_on_an_interpreter_and_on_one_that_is_not_there(
    cores: int, tmp_path: Path, monkeypatch: Patch, capsys: Said
) -> None:
    monkeypatch.setattr(preflight, "core_count", lambda: cores)
    monkeypatch.setattr(
        interpreters, "choose", lambda words: [python("3.8"), THIS]
    )
    status, kept = run(
        labs, tmp_path, "gil", "--parts", "compute", "--gil-seconds",
        "0.05", "--repeats", "1",
    )
    assert status == 1
    assert [(p.server, p.variant, p.status) for p in kept.points] == [
        (label, variant, how)
        for label, how in (("3.8", "failed"), (THIS.label, "ok"))
        for variant in ("1 CPU", "2 CPUs")[:cores]
    ]
    for point in kept.points:
        if point.status == "failed":
            assert "/a/python: No such file" in point.reason
            continue
        assert point.suite == "labs-gil"
        assert (point.median("efficiency_times") or 0) > 0
        assert point.median("gil") in (0.0, 1.0)
        assert point.runs[0].command.startswith(f"python{THIS.label} 03_thr")
    assert THIS.version in kept.tools[f"python{THIS.label}"]
    said = capsys.readouterr().out
    assert "two threads" in said
    assert ("This machine has one CPU" in said) == (cores == 1)


def test_other_output_is_no_figures() -> None:
    for text in ("", "nothing", "[]", "{}", '{"figures": {}, "gil": true}',
                 '{"figures": {"lock": []}, "gil": true}',
                 '{"figures": {"unheard_of": [1]}, "gil": true}'):
        with pytest.raises(LabError):
            gil.read(text)


# frames -------------------------------------------------------------------


def bench(folder: Path, *words: str) -> frames.Bench:
    made, out = folder / "made", folder / "out"
    made.mkdir()
    chosen = options(labs, *words, "--output", str(out))
    people = [frames.Who("newest", THIS)]
    return frames.Bench(session(out, **vars(chosen)), people, ["reused"], made)


@pytest.mark.parametrize(("labels", "missing", "parts"), [
    (["2.7", "3.8", "3.11", "3.13"], {}, "oldest 3.8 newest 3.13 "
     "libraries 3.11"),
    (["3.11"], {"uvloop": "no"}, "newest 3.11 libraries 3.11"),
    (["3.11"], dict.fromkeys("abc", "no"), "newest 3.11"),
    (["2.7", "3.13t"], {}, ""),
])
def test_the_oldest_and_the_newest_with_a_gil_are_chosen(
    labels: list[str], missing: dict[str, str], parts: str, tmp_path: Path,
    monkeypatch: Patch,
) -> None:
    found = [python(label, label.endswith("t")) for label in labels]
    monkeypatch.setattr(interpreters, "choose", lambda words: found)
    monkeypatch.setattr(start, "missing", lambda peers, say: missing)
    monkeypatch.setattr(frames, "identify", lambda program: python("3.11"))
    if not parts:
        with pytest.raises(InterpreterError, match=r"from Python 3\.8 on"):
            frames.choose(None, True, session(tmp_path))
        return
    people = frames.choose(None, True, session(tmp_path))
    said = " ".join(f"{who.part} {who.python.label}" for who in people)
    assert said == parts


@pytest.mark.thorough
def test_a_whole_run_of_frames(tmp_path: Path, capsys: Said) -> None:
    status, saved = run(
        labs, tmp_path, "frames", "--pythons", sys.executable,
        "--no-libraries", "--frame-variants", "reused,uv-streams,splice",
        "--frame-size", "100000", "--frame-count", "2", "--repeats", "2",
    )
    assert status == 0 and frames.SUITE in MORE_SUITES
    points = {(p.server, p.variant): p for p in saved.points}
    point = points["reused", "newest, two processes"]
    assert len(point.runs) == 2 and point.status == "ok"
    one = point.runs[0]
    assert one.requests == 2 and one.extra["mb_per_second"] > 0
    assert one.command.startswith("python3") and frames.LAB in one.command
    assert ("reused", "newest, one process") not in points  # no page
    # What needs a library is left to the interpreter that has it.
    assert not any(name == "uv-streams" for name, _ in points)
    huge = ("reused", "newest, two processes, huge pages") in points
    assert huge == (not frames.why_no_huge_pages())
    if HAS_CC:
        assert one.extra["copied_frames"] == 0
        assert "MB/s" in capsys.readouterr().out
        point = points["C-splice", "C, two processes"]
        assert "--server 'frames splice'" in point.runs[0].command
    profile = json.loads((tmp_path / "profile.json").read_text())
    functions = profile["newest, one process"]["reused"]
    assert 0 < sum(share for _, share in functions) <= 1.001
    text = (tmp_path / "results.json").read_text() + "".join(
        raw.read(tmp_path, name) for name in raw.names(tmp_path)
    )
    assert sys.prefix not in text and tempfile.gettempdir() not in text


def row(name: str, **more: Any) -> dict[str, Any]:
    return {"name": name, "skipped": "", "error": "", "runs": [], **more}


def test_skipped_and_failed_variants_keep_their_reason(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    one = bench(tmp_path)
    one.names = ["reused", "splice", "join"]
    said = json.dumps({"variants": [
        row("reused", runs=[{"seconds": 1.0, "mb_per_second": 100.0}]),
        row("splice", skipped="os.splice is not in this Python"),
        row("join", error="it is ill"),
    ]})  # fmt: skip
    monkeypatch.setattr(frames, "said_by", lambda *_, **more: said)
    for _ in range(2):
        one.measure(frames.Case(one.people[0], "one"))
    points = {p.server: p for p in one.session.points}
    assert len(one.session.points) == 3
    assert points["reused"].median("mb_per_second") == 100
    assert [(p.status, p.reason) for p in points.values()] == [
        ("ok", ""), ("skipped", "os.splice is not in this Python"),
        ("failed", "it is ill"),
    ]
    monkeypatch.setattr(frames, "said_by", lambda *_, **more: "oh")
    one.measure(frames.Case(one.people[0], "one", True))
    assert one.session.points[-1].reason == "the lab did not print its figures"


@needs_cc
def test_the_counter_counts(tmp_path: Path) -> None:
    one = bench(tmp_path)
    file = tmp_path / "count.json"
    code = "a = bytes(10**7); b = bytearray(a); c = a + b"
    said_by(
        [sys.executable, "-c", code], 60,
        environment={"LD_PRELOAD": one.counter, "COUNT_FILE": str(file)},
    )
    found = json.loads(file.read_text())
    assert 3e7 <= found["copied"] < 3.3e7  # into b; both into c
    assert 4e7 <= found["allocated"] < 4.5e7
    assert found["allocations"] >= 3


@needs_cc
def test_the_echo_in_c(tmp_path: Path) -> None:
    one = bench(tmp_path, "--frame-size", "300001")
    case = frames.Case(one.people[0], "two")
    for how in frames.IN_C.values():
        _, said = one.lab(case, 3, "--server", f"{one.echo} {how}")
        (found,) = said["variants"]
        assert not found["error"] and found["runs"][0]["seconds"] > 0
    with pytest.raises(LabError, match="say recv, through or splice"):
        said_by([one.echo, "hat"], 60)


# What a variant says that it copies, and how much more or less that may
# be. What a transport sends at once is not copied before Python 3.12, and
# that depends on how soon the client takes it: "up to", so never more.
EXACT, UP_TO = (-0.1, 0.1), (-9.0, 0.3)


@needs_cc
@pytest.mark.thorough
@pytest.mark.parametrize("where", ["here", "newest", "libraries"])
def test_each_variant_copies_what_it_says(
    where: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    """In frames that are much more than a socket holds.

    With the first read of a frame (256 KiB at most) a head may have come
    or not, and then asyncio.Protocol copies what came with it: in two
    frames less than a tenth of this size.
    """
    monkeypatch.setattr(frames, "COUNTED", (1, 2))
    names = ["streams", "protocol", "buffered"]
    who = frames.Who(where, THIS)
    if where == "here":
        names += ["sock", "join", "fresh", "reused", "waitall", "sendfile",
                  "through", "splice"]
    elif where == "newest":
        newest = [each for each in interpreters.find() if not each.free][-1]
        if interpreters.numbers(newest) < [3, 12]:
            pytest.skip("there is no Python 3.12 or newer with a GIL here")
        who = frames.Who(where, newest)
    else:
        names = ["uv-streams", "uv-protocol", "uv-buffered", "tornado",
                 "tornado-into", "trio"]
        try:
            who = frames.Who(where, identify(str(start.PYTHON)))
        except InterpreterError:
            pytest.skip(f"{start.VENV.name} has not been made")
    one = bench(tmp_path, "--frame-size", "8000000")
    _, said = one.lab(
        frames.Case(who, "two"), 1, "--only", ",".join(names), "--no-counts"
    )
    old = interpreters.numbers(who.python) < [3, 12]
    for found in said["variants"]:
        if found["skipped"]:
            continue
        name = found["name"]
        loose = old and name in ("streams", "protocol", "buffered")
        low, high = UP_TO if loose else EXACT
        for _ in range(3):  # how a frame arrives is the kernel's affair:
            counted = one.copies(who, name)  # a buffer may grow once more
            copied = counted["copied_frames"] - found["copies"]
            if low <= copied <= high:
                break
        else:
            pytest.fail(f"{name} says {found['copies']}: {counted}")
        if name in ("sock", "reused", "waitall", "splice"):
            assert counted["allocated_frames"] < 0.1
        if name == "fresh":
            assert counted["allocated_frames"] == pytest.approx(1, abs=0.1)
