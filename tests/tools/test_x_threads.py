"""tools.bench.x_threads: interpreters, cases, and what is kept of them."""

import argparse
import io
import shutil
import sys
from pathlib import Path

import pytest
from rich.console import Console

from tools.bench import x_threads as x
from tools.bench.ab import Load
from tools.data.results import Machine, Point, Results, Run, load
from tools.servers import by_name

MACHINE = Machine("CPU", 2, 10**9, "Linux 6.1", "CPython 3.11.7", 1024)
GIL = x.Interpreter("/opt/a/python", "3.13", "3.13.5", False)
FREE = x.Interpreter("/opt/b/python", "3.13t", "3.13.5", True, True)
LOAD = "ab" if shutil.which("ab") else "python"


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    x.add_options(parser)
    parser.add_argument("--repeats", type=int)
    return parser.parse_args(words)


def empty() -> Results:
    return Results(
        "./bench.sh threads --pythons /opt/a/python", "threads",
        "2026-01-01T00:00:00+00:00", "", MACHINE, {}, LOAD,
    )


def console() -> tuple[Console, io.StringIO]:
    file = io.StringIO()
    return Console(file=file, width=120), file


def test_an_interpreter_says_what_it_is() -> None:
    found = x.identify(sys.executable)
    major, minor = sys.version_info[:2]
    assert found.version.startswith(f"{major}.{minor}.")
    assert found.label.rstrip("t") == f"{major}.{minor}"
    assert found.free == found.label.endswith("t")


@pytest.mark.parametrize(
    ("paths", "words"),
    [
        ("/nowhere/python3.13t", "there is no interpreter"),
        (shutil.which("cat") or "/bin/cat", "does not work"),
        (shutil.which("echo") or "/bin/echo", "is not a Python interpr"),
        (" , ", "--pythons names no interpreter"),
        (f"{sys.executable},{sys.executable}", "two of the interpreters"),
    ],
)
def test_an_interpreter_that_cannot_be_used_is_one_sentence(
    paths: str, words: str, tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    results = empty()
    status = x.run(
        options("--pythons", paths), results, tmp_path, console()[0]
    )
    said = capsys.readouterr().err
    assert status == 2
    assert said.startswith("bench.sh: ") and words in said
    assert said.count("\n") == 1
    assert not results.points


def test_default_interpreters_are_each_there_once() -> None:
    labels = [python.label for python in x.interpreters(None)]
    assert labels[0] == x.identify(sys.executable).label
    assert len(labels) == len(set(labels))


def test_a_command_that_does_not_run_is_no_interpreter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shim = tmp_path / "python3.13t"
    shim.write_text("#!/bin/sh\nexit 127\n")
    shim.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    assert x.identify(sys.executable) in x.interpreters(None)


def test_two_of_one_minor_version_are_told_apart() -> None:
    other = x.Interpreter("/opt/c/python", "3.13", "3.13.0", False)
    labels = [p.label for p in x.tell_apart([GIL, other, FREE])]
    assert labels == ["3.13.5", "3.13.0", "3.13t"]


@pytest.mark.parametrize(
    "words",
    [
        ("--steps", "0"), ("--steps", "many"), ("--seconds", "-1"),
        ("--clients", "0.5"), ("--steps", "5", "--calibrate"),
    ],
)
def test_nonsense_is_refused(words: tuple[str, ...]) -> None:
    with pytest.raises((argparse.ArgumentError, SystemExit)):
        options(*words)


def test_neither_command_nor_variant_tell_a_local_path() -> None:
    found = x.command(options("--repeats", "2"), [GIL, FREE])
    assert found == (
        "./bench.sh threads --pythons python3.13,python3.13t --steps 20000 "
        "--seconds 3 --clients 10 --repeats 2"
    )
    assert "--calibrate" in x.command(options("--calibrate"), [GIL])
    for case in x.cases_of(FREE):
        assert case.variant.startswith("3.13t, ")
        assert "/" not in case.variant


def test_every_server_of_the_question_is_measured() -> None:
    found = {(c.server.name, c.how) for c in x.cases_of(GIL)}
    assert {
        ("03", "a thread each"), ("06", "one loop"), ("07", "1 thread"),
        ("07", "2 threads"), ("07", "1 process"), ("07", "2 processes"),
    } <= found


def test_the_gil_is_asked_for() -> None:
    this = x.identify(sys.executable)
    case = x.Case(this, by_name("03"), "a thread each")
    has = getattr(sys, "_is_gil_enabled", lambda: True)()
    assert x.has_gil(case) == float(has)
    assert x.has_gil(x.Case(GIL, by_name("03"), "a thread each")) is None


def test_calibration_gives_steps_for_a_millisecond() -> None:
    assert 1_000 < x.calibrate(x.identify(sys.executable)) < 10_000_000


def test_a_run_has_every_figure(tmp_path: Path) -> None:
    python = x.identify(sys.executable)
    case = x.Case(python, by_name("03"), "a thread each", (), True)
    one = x.measure(case, 2000, Load(2, 40, 5), LOAD, tmp_path)
    assert one.error is None
    assert one.requests == 40
    assert one.requests_per_second and one.figure("cpu_ms")
    assert one.peak_memory and one.threads
    name = f"python{python.label} 03_threading/server.py"
    assert one.command.startswith(f"{name} --delay 0 --compute 2000 ")
    raw = tmp_path / "raw" / f"03-{python.label}-a-thread-each.txt"
    assert raw.read_text().startswith(f"$ {name}")


def test_a_server_that_does_not_start_is_a_row(tmp_path: Path) -> None:
    python = x.identify(sys.executable)
    case = x.Case(python, by_name("03"), "a hat", ("--hat", "2"))
    one = x.measure(case, 10, Load(1, 1, 1), LOAD, tmp_path)
    assert one.error is not None
    assert one.error.startswith("the server does not start: ")
    assert "Traceback" not in one.error


def fake_measure(order: list[str], bad: str = "") -> object:
    def measure(
        case: x.Case, steps: int, load: Load, program: str, folder: Path
    ) -> Run:
        order.append(f"{case.server.name} {case.variant}")
        if case.how == bad:
            return Run("", error="it is bad")
        return Run(
            "", requests=100, seconds=1.0, cpu_user=0.1, cpu_system=0.1,
            requests_per_second=200.0 if "2" in case.how else 100.0,
        )

    return measure


@pytest.mark.parametrize(("bad", "status"), [("", 0), ("2 threads", 1)])
def test_all_is_measured_interleaved_and_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, bad: str, status: int
) -> None:
    order: list[str] = []
    monkeypatch.setattr(x, "interpreters", lambda paths: [GIL, FREE])
    monkeypatch.setattr(x, "measure", fake_measure(order, bad))
    monkeypatch.setattr(
        x, "has_gil", lambda case: float(case.interpreter is GIL)
    )
    results = empty()
    screen, file = console()
    assert status == x.run(
        options("--repeats", "2"), results, tmp_path, screen
    )
    half = len(order) // 2
    assert order[:half] == order[half:]
    saved = load(tmp_path)
    assert len(saved.points) == half == len(set(order))
    assert "/opt" not in (tmp_path / "results.json").read_text()
    assert saved.tools["python3.13t"] == (
        "3.13.5, free-threaded, optimised build"
    )
    for point in saved.points:
        assert point.suite == "threads" and point.compute == x.STEPS
        assert len(point.runs) == 2
        if point.status == "ok":
            assert point.median("gil") == float("3.13," in point.variant)
    text = file.getvalue()
    assert "2 processes" in text
    assert ("it is bad" in text) == bool(bad)


def test_an_interrupt_keeps_what_was_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    count: list[str] = []
    good = fake_measure(count)

    def measure(*words: object) -> object:
        if len(count) == 2:
            raise KeyboardInterrupt
        return good(*words)  # type: ignore[operator]

    monkeypatch.setattr(x, "interpreters", lambda paths: [GIL])
    monkeypatch.setattr(x, "measure", measure)
    monkeypatch.setattr(x, "has_gil", lambda case: None)
    with pytest.raises(KeyboardInterrupt):
        x.run(options(), empty(), tmp_path, console()[0])
    assert len(load(tmp_path).points) == 2


def test_gain_is_against_one_worker_of_the_same_kind() -> None:
    def point(server: str, variant: str, rate: float) -> Point:
        run = Run("", requests=1, requests_per_second=rate)
        return Point(server, "threads", 10, 0.0, variant=variant, runs=[run])

    points = [
        point("07", "3.13, 1 thread", 100.0),
        point("07", "3.13, 2 threads", 95.0),
        point("07", "3.13t, 1 thread", 80.0),
        point("07", "3.13t, 2 threads", 160.0),
        point("03", "3.13t, a thread each", 90.0),
    ]
    gains = [x.gain(one, points) for one in points]
    assert gains == [None, 0.95, None, 2.0, None]
