"""tools.bench.labs_frames: who runs it, what is kept, what is counted."""

import argparse
import io
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tools.bench import interpreters
from tools.bench import labs_frames as x
from tools.bench.peers import start
from tools.bench.x_threads import Interpreter, InterpreterError, identify
from tools.data.results import MORE_SUITES, Machine, Point, Results, Run, load

MACHINE = Machine("CPU", 2, 10**9, "Linux 6.1", "CPython 3.11.7", 1024)
OLD = Interpreter("/a/python", "3.8", "3.8.18", False)
MIDDLE = Interpreter("/b/python", "3.11", "3.11.7", False)
NEW = Interpreter("/c/python", "3.13", "3.13.0", False)
FREE = Interpreter("/d/python", "3.13t", "3.13.0", True)
PYTHON2 = Interpreter("/e/python", "2.7", "2.7.18", False)
HAS_CC = sys.platform == "linux" and shutil.which("cc") is not None
SIZE = 50_000_000  # bytes; much more than a socket holds

needs_cc = pytest.mark.skipif(
    not HAS_CC, reason="there is no cc for Linux to compile with"
)


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    x.add_options(parser)
    parser.add_argument("--pythons")
    parser.add_argument("--repeats", type=int)
    return parser.parse_args(words)


def empty() -> Results:
    return Results(
        "./bench.sh labs frames", "labs-frames",
        "2026-01-01T00:00:00+00:00", "", MACHINE, {},
    )


def console() -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, width=200), file


def here() -> x.Who:
    return x.Who("newest", identify(sys.executable))


def bench(folder: Path, *words: str) -> x.Bench:
    made = folder / "made"
    made.mkdir()
    found = x.Bench(options(*words), empty(), folder, console()[0], made)
    found.people, found.names, found.pages = [here()], ["reused"], (False,)
    return found


# Who runs it ---------------------------------------------------------


def test_the_oldest_and_the_newest_with_a_gil_are_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = [PYTHON2, OLD, MIDDLE, NEW, FREE]
    monkeypatch.setattr(interpreters, "choose", lambda words: found)
    people = x.choose(None, False, console()[0])
    assert people == [x.Who("oldest", OLD), x.Who("newest", NEW)]
    found[:] = [MIDDLE]
    assert x.choose(None, False, console()[0]) == [x.Who("newest", MIDDLE)]
    found[:] = [PYTHON2, FREE]
    with pytest.raises(InterpreterError, match=r"from Python 3\.8 on"):
        x.choose(None, False, console()[0])


@pytest.mark.parametrize(
    ("missing", "there"), [({}, True), ({"uvloop": "no"}, True),
                           (dict.fromkeys("abc", "no"), False)]
)
def test_libraries_are_measured_where_they_can_be_had(
    monkeypatch: pytest.MonkeyPatch, missing: dict[str, str], there: bool
) -> None:
    monkeypatch.setattr(interpreters, "choose", lambda words: [NEW])
    monkeypatch.setattr(start, "missing", lambda peers, say: missing)
    monkeypatch.setattr(x, "identify", lambda program: MIDDLE)
    people = x.choose(None, True, console()[0])
    assert (x.Who("libraries", MIDDLE) in people) == there


def test_an_interpreter_that_is_missing_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ("--pythons", "/nowhere/python3", "--no-libraries")
    assert x.run(options(*words), empty(), tmp_path, console()[0]) == 2
    said = capsys.readouterr().err
    assert said == "bench.sh: there is no interpreter /nowhere/python3\n"


@pytest.mark.parametrize(
    ("words", "said"), [("streams,sand", "no variant 'sand'; there are"),
                        (",", "--frame-variants names no variant")]
)
def test_a_variant_that_is_none_is_one_sentence(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], words: str, said: str
) -> None:
    chosen = options(
        "--pythons", sys.executable, "--no-libraries", "--frame-variants",
        words,
    )
    assert x.run(chosen, empty(), tmp_path, console()[0]) == 2
    text = capsys.readouterr().err
    assert text.startswith("bench.sh: ") and said in text
    assert text.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [("--frame-size", "0"), ("--frame-count", "0"),
     ("--frame-shape", "three"), ("--frame-size", "many")],
)
def test_nonsense_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises((argparse.ArgumentError, SystemExit)):
        options(*words)


# Measuring -----------------------------------------------------------


@pytest.mark.slow
def test_a_whole_run(tmp_path: Path) -> None:
    chosen = options(
        "--pythons", sys.executable, "--no-libraries", "--frame-variants",
        "reused,uv-streams,splice", "--frame-size", "100000",
        "--frame-count", "2", "--repeats", "2",
    )
    screen, file = console()
    results = empty()
    assert x.run(chosen, results, tmp_path, screen) == 0, file.getvalue()
    saved = load(tmp_path)
    assert x.SUITE in MORE_SUITES
    points = {(p.server, p.variant): p for p in saved.points}
    point = points["reused", "newest, two processes"]
    assert len(point.runs) == 2 and point.status == "ok"
    assert point.median("mb_per_second")
    one = point.runs[0]
    assert one.requests == 2
    assert one.extra["receives_per_frame"] >= 2
    assert one.command.startswith("python3") and LAB_NAME in one.command
    assert ("reused", "newest, one process") in points
    # What needs a library is left to the interpreter that has it.
    assert not any(name == "uv-streams" for name, _ in points)
    if not x.why_no_huge_pages():
        assert ("reused", "newest, two processes, huge pages") in points
    if HAS_CC:
        assert len(points["C-splice", "C, two processes"].runs) == 2
        assert one.extra["copied_frames"] == 0
        assert "the fastest Python is" in file.getvalue()
        point = points["C-splice", "C, two processes"]
        assert "--server 'frames splice'" in point.runs[0].command
    text = (tmp_path / "results.json").read_text()
    assert sys.prefix not in text and tempfile.gettempdir() not in text
    profile = json.loads((tmp_path / "profile.json").read_text())
    functions = profile["newest, one process"]["reused"]
    assert 0 < sum(share for _, share in functions) <= 1.001
    raw = "".join(f.read_text() for f in (tmp_path / "raw").iterdir())
    assert sys.prefix not in raw and tempfile.gettempdir() not in raw


LAB_NAME = "06_asyncio/lab_frames.py"


def said(*rows: dict[str, Any]) -> str:
    return json.dumps({"variants": list(rows)})


def row(name: str, **more: Any) -> dict[str, Any]:
    found = {"name": name, "skipped": "", "error": "", "runs": []}
    return {**found, **more}


def test_skipped_and_failed_variants_keep_their_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = bench(tmp_path)
    case = x.Case(here(), "one", False)
    text = said(
        row("reused", runs=[{"seconds": 1.0, "mb_per_second": 100.0}]),
        row("splice", skipped="os.splice is not in this Python"),
        row("join", error="it is ill"),
    )
    monkeypatch.setattr(x, "call", lambda words, **environment: text)
    for _ in range(2):
        one._take(case, ["reused", "splice", "join"], [])
    points = {p.server: p for p in one.results.points}
    assert len(one.results.points) == 3
    assert points["splice"].status == "skipped"
    assert points["splice"].reason == "os.splice is not in this Python"
    assert points["join"].status == "failed"
    assert points["join"].reason == "it is ill"
    assert points["reused"].median("mb_per_second") == 100


def test_a_lab_that_breaks_is_a_row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = bench(tmp_path)
    monkeypatch.setattr(x, "call", lambda words, **environment: "oh")
    one._take(x.Case(here(), "one", False), ["reused"], [])
    (point,) = one.results.points
    assert point.status == "failed"
    assert point.reason == "the lab did not print its figures"


def test_a_command_that_fails_is_a_sentence() -> None:
    with pytest.raises(x.LabError, match="frame of nothing"):
        x.call([sys.executable, x.LAB, "--size", "0"])
    with pytest.raises(x.LabError, match="No such file"):
        x.call(["/nowhere/python3"])


def test_the_best_are_compared() -> None:
    def point(name: str, variant: str, rate: float) -> Point:
        run = Run("", extra={"mb_per_second": rate})
        return Point(name, x.SUITE, 1, 0.0, variant=variant, runs=[run])

    points = [
        point("reused", "newest, two processes", 950),
        point("sock", "oldest, two processes", 900),
        point("splice", "newest, one process", 5000),
        point("C-recv", "C, two processes", 1000),
        point("C-splice", "C, two processes, huge pages", 500),
    ]
    assert x.against_c(points) == [
        "two processes: the fastest Python is reused (newest) with 950 "
        "MB/s, 95 % of C-recv."
    ]


# What is counted -----------------------------------------------------


def libraries() -> x.Who | None:
    """The interpreter with uvloop and the rest, if it has been made."""
    try:
        return x.Who("libraries", identify(str(start.PYTHON)))
    except InterpreterError:
        return None


@needs_cc
@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    ["streams", "protocol", "buffered", "sock", "uv-streams", "uv-protocol",
     "uv-buffered", "tornado", "tornado-into", "trio", "join", "fresh",
     "reused", "waitall", "sendfile", "through", "splice"],
)
def test_each_variant_copies_what_it_says(
    name: str, tmp_path: Path
) -> None:
    who: x.Who | None = here()
    if name.startswith(("uv-", "tornado", "trio")):
        who = libraries()
    if who is None:
        pytest.skip(f"{start.VENV.name} has not been made")
    case = x.Case(who, "two", False)
    one = bench(tmp_path, "--frame-size", str(SIZE))
    _, out = one.lab(
        case, "--only", name, "--rounds", "1", "--frames", "1",
        "--no-counts",
    )
    (found,) = x.read(out)["variants"]
    if found["skipped"]:
        pytest.skip(found["skipped"])
    counted = one.copies(who, name)
    copied = counted["copied_frames"]
    if name in ("streams", "protocol", "buffered") and (
        interpreters.numbers(who.python) < [3, 12]
    ):
        # What the transport sends at once is not copied: "up to 3", and
        # how much that is depends on how soon the client takes it. So
        # it may be counted again, but never be more than it says.
        for _ in range(4):
            assert copied < found["copies"] + 0.3
            if copied > found["copies"] - 1.6:
                break
            copied = one.copies(who, name)["copied_frames"]
        assert copied > found["copies"] - 1.6
    else:
        assert copied == pytest.approx(found["copies"], abs=0.1)
    if name in ("sock", "reused", "waitall", "splice"):
        assert counted["allocated_frames"] < 0.1
    if name == "fresh":
        assert counted["allocated_frames"] == pytest.approx(1, abs=0.1)


@needs_cc
@pytest.mark.parametrize("name", ["streams", "protocol", "buffered"])
def test_the_transport_copies_nothing_from_python_3_12_on(
    name: str, tmp_path: Path
) -> None:
    newest = interpreters.find()[-1]
    if newest.free or interpreters.numbers(newest) < [3, 12]:
        pytest.skip("there is no Python 3.12 or newer with a GIL here")
    one = bench(tmp_path, "--frame-size", str(SIZE))
    copied = one.copies(x.Who("newest", newest), name)["copied_frames"]
    wanted = {"streams": 2, "protocol": 1, "buffered": 0}[name]
    assert copied == pytest.approx(wanted, abs=0.1)


@needs_cc
def test_the_counter_counts(tmp_path: Path) -> None:
    one = bench(tmp_path)
    file = tmp_path / "count.json"
    code = "a = bytes(10**7); b = bytearray(a); c = a + b"
    x.call(
        [sys.executable, "-c", code], LD_PRELOAD=one.counter,
        COUNT_FILE=str(file),
    )
    found = json.loads(file.read_text())
    assert 3e7 <= found["copied"] < 3.3e7  # into b; both into c
    assert 4e7 <= found["allocated"] < 4.5e7
    assert found["allocations"] >= 3


@needs_cc
@pytest.mark.parametrize("how", ["recv", "through", "splice"])
def test_the_echo_in_c(how: str, tmp_path: Path) -> None:
    one = bench(tmp_path, "--frame-size", "3000001")
    _, out = one.lab(
        x.Case(here(), "two", False), "--server", f"{one.echo} {how}",
        "--rounds", "1", "--frames", "3",
    )
    (found,) = x.read(out)["variants"]
    assert not found["error"] and found["runs"][0]["seconds"] > 0
    with pytest.raises(x.LabError, match="say recv, through or splice"):
        x.call([one.echo, "hat"])
