"""The experiments of the bench: their options, rounds, loads, results."""

import argparse
import py_compile
import shutil
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from tests.marks import Patch, Said
from tests.tools.experiment import (
    LOAD,
    options,
    printed,
    run,
    session,
    status_of,
)
from tools.bench import __main__ as command
from tools.bench import interpreters, outcome
from tools.bench import session as sessions
from tools.bench.ab import Load
from tools.bench.experiments import (
    crowd,
    gains,
    hold,
    labs,
    pythons,
    record,
    scale,
    static,
    threads,
)
from tools.bench.interpreters import Interpreter
from tools.bench.peers.start import start as start_peer
from tools.bench.server import ServerError, start
from tools.bench.session import Refused, Session, conduct
from tools.common.launch import check_seen
from tools.data.results import Point, Run, load
from tools.peers import Peer
from tools.servers import ROOT, by_name

GIL = Interpreter("/opt/a/python", "3.13", "3.13.5", False)
FREE = Interpreter("/opt/b/python", "3.13t", "3.13.5", True, True)
# Options ------------------------------------------------------------------


@pytest.mark.parametrize(("module", "words"), [
    (crowd, "--clients 0"), (crowd, "--repeats 51"),
    (crowd, "--output pyproject.toml"),
    (crowd, "--output docs/data/crowd"),
    (crowd, "--output new --reference"), (hold, "--clients x"),
    (hold, "--clients ,"), (hold, "--clients 9999999"),
    (hold, "--only 99"), (hold, "--only ,"), (hold, "--patience 0"),
    (hold, "--options '"), (scale, "--compute no"),
    (labs, "nonsense"), (labs, "--parts none"), (labs, "--servers ,"),
    (labs, "--frame-size many"),
    (record, "--reference --output x"), (record, "07"),
])
def test_nonsense_is_refused(
    module: ModuleType, words: str, monkeypatch: Patch
) -> None:
    monkeypatch.chdir(ROOT)
    with pytest.raises((argparse.ArgumentError, SystemExit)):
        options(module, *words.split(" "))


def test_a_command_has_no_folder_of_this_machine() -> None:
    words = ["demo", "--way", "a=/home/me/x,/y/z", "--output", "/tmp/o",
             "--output=/tmp/o", "--repeats", "3"]
    assert outcome.as_typed(words) == (
        "./bench.sh demo --way a=x,z --repeats 3"
    )


# A session ----------------------------------------------------------------


def one_run(session: Session) -> int:
    session.keep(Point("07", "demo", 1, 0.0), Run("command"))
    return 0


def interrupted(session: Session) -> int:
    one_run(session)
    raise KeyboardInterrupt


@pytest.mark.parametrize(("points", "end", "status", "says"), [
    (1, None, 0, "Figures and raw outputs:"),
    (1, KeyboardInterrupt(), 130, "Interrupted: what was measured is in"),
    (0, KeyboardInterrupt(), 130, "Interrupted before anything was measured."),
    (1, OSError(28, "No space left on device"), 1, "Stopped: No space left "
     "on device."),
    (0, Refused("no such thing"), 2, "bench.sh: no such thing\n"),
])
def test_however_it_ends_what_was_measured_is_kept(
    points: int, end: BaseException | None, status: int, says: str,
    tmp_path: Path, capsys: Said,
) -> None:
    def measure(session: Session) -> int:
        for _ in range(points):
            one_run(session)
        if end:
            raise end
        return 0

    folder = tmp_path / "out"
    chosen = argparse.Namespace(output=folder, reference=False, repeats=None)
    assert conduct("demo", chosen, measure) == status
    said = capsys.readouterr()
    assert says in said.out + said.err
    assert folder.exists() == bool(points)
    if points:
        found = load(folder)
        assert (found.mode, len(found.points)) == ("demo", 1)
        assert found.complete == (status == 0)


def test_only_a_good_run_becomes_the_committed_one(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(sessions, "DATA", tmp_path / "data")
    old = tmp_path / "data" / "demo" / "old"
    old.parent.mkdir(parents=True)
    old.write_text("old")

    def bad(session: Session) -> int:
        return one_run(session) or 1

    for measure, status in ((bad, 1), (one_run, 0)):
        chosen = argparse.Namespace(
            output=tmp_path / "out", reference=True, repeats=None
        )
        assert conduct("demo", chosen, measure) == status
        assert old.exists() == bool(status)
    assert load(old.parent).complete


def test_rounds_take_turns_and_each_run_is_saved(tmp_path: Path) -> None:
    seen: list[str] = []
    one = session(tmp_path / "out", repeats=2)

    def measure(name: str) -> Run:
        kept = load(one.folder).points if seen else []
        assert sum(len(point.runs) for point in kept) == len(seen)
        seen.append(name)
        if name == "b":
            raise ServerError("it does not start")
        return Run("", requests_per_second=1.0)

    points = {name: Point(name, "demo", 1, 0.0) for name in "ab"}
    one.rounds([(points[name], partial(measure, name)) for name in "ab"], 5)
    assert seen == ["a", "b", "a", "b"]
    assert one.status() == 1
    assert points["b"].reason == "it does not start"


def test_a_load_is_measured_as_the_server_is(tmp_path: Path) -> None:
    check_seen()
    one = session(tmp_path)
    with start(by_name("06-protocol"), 0.0) as process:
        found = one.load(process, Load(2, 40), name="06", busy=True)
        one.results.load = "python"
        nobody = one.load(process, Load(1, 1), url="http://127.0.0.1:1/")
    assert found.error is None and found.requests == 40
    assert found.requests_per_second and found.figure("cpu_ms")
    assert found.peak_memory and found.threads
    assert found.extra["load_cores"] > 0
    assert found.extra["load_limit_per_second"] > 0
    program = LOAD if LOAD == "ab" else "python3"
    assert f"\n{program} " in found.command
    assert nobody.error and nobody.requests == 0


# crowd, gains, scale, static ----------------------------------------------


def test_too_many_clients_for_this_machine(
    tmp_path: Path, monkeypatch: Patch, capsys: Said
) -> None:
    monkeypatch.setattr(crowd, "raise_open_files", lambda wanted: 1024)
    assert status_of(crowd, tmp_path / "x") == 1
    assert "4,000 clients are not possible" in capsys.readouterr().out


@pytest.mark.thorough
@pytest.mark.parametrize(("module", "words", "shown", "least", "holds"), [
    (crowd, "--clients 5 --seconds 1", "possible", 2,
     lambda p: p.variant == "1 worker"
     and p.keep_alive == (p.suite != "crowd-new")),
    (scale, "--clients 4 --seconds 1 --compute 1000", "03, ", 3,
     lambda p: p.compute == 1000 and "--compute 1000" in p.runs[0].command),
])
def test_a_whole_run_is_kept_and_shown(
    module: ModuleType, words: str, shown: str, least: int,
    holds: Callable[[Point], bool], tmp_path: Path, capsys: Said,
) -> None:
    status, kept = run(module, tmp_path, *words.split(), "--repeats", "1")
    assert status == 0 and shown in capsys.readouterr().out
    assert len(kept.points) >= least
    for point in kept.points:
        (one,) = point.runs
        assert one.requests > 0 and holds(point), point


def test_every_idea_can_still_be_taken_away() -> None:
    original = {
        path.name: path.read_text(encoding="utf-8")
        for path in by_name("07").path.parent.glob("*.py")
    }
    with gains.copies() as servers:
        assert list(servers) == [idea.name for idea in gains.IDEAS]
        for idea in gains.IDEAS:
            touched = {change[0] for change in idea.changes}
            for name, text in original.items():
                copy = servers[idea.name].path.parent / name
                same = copy.read_text(encoding="utf-8") == text
                assert same == (name not in touched), (idea.name, name)
                py_compile.compile(str(copy), doraise=True)
    assert not (ROOT / gains.COPIES).exists()


def test_a_change_that_does_not_fit(tmp_path: Path) -> None:
    idea = gains.Idea("none", (("server.py", "not there", ""),))
    with pytest.raises(Refused, match="'not there' is 0 times"):
        gains.patched(idea, tmp_path)


def test_a_speed_up_is_counted_from_the_same_turn() -> None:
    one = Point("07", "scale", 64, 0.0, variant="1 worker")
    one.runs = [Run("", requests_per_second=r) for r in (100.0, 50.0)]
    case = scale.Case(by_name("07"), "2 workers")
    for turn, rate, extra in (
        (0, 190.0, {"speed_up_times": 1.9}),
        (1, 110.0, {"speed_up_times": 2.2}),
        (2, 1.0, {}),  # the other one failed
    ):
        found = Run("", requests_per_second=rate)
        scale.speed_up(found, [one], case, turn)
        assert found.extra == extra


@pytest.mark.parametrize(
    "case", static.cases(), ids=lambda case: f"{case.name} {case.title}"
)
def test_each_server_serves_the_page(case: Peer, tmp_path: Path) -> None:
    if case is static.ENGINE_X and shutil.which("nginx") is None:
        pytest.skip("nginx is needed")
    if case is static.NODE and not static.node_server().is_file():
        pytest.skip("./bench.sh static has not installed it")
    site = static.make_site(tmp_path)
    with start_peer(case, static.page(), site) as process:
        assert str(site) not in process.command


@pytest.mark.parametrize("words", [[], ["x", "DIR"]])
def test_the_patched_http_server_explains_itself(words: list[str]) -> None:
    done = printed("tools/bench/peers/static_http.py", *words)
    assert done.returncode == 1
    assert done.stderr.startswith("usage: ")
    assert done.stderr.count("\n") == 1


def test_what_is_missing_is_a_row_that_says_how_to_get_it(
    monkeypatch: Patch, tmp_path: Path, capsys: Said
) -> None:
    one = session(tmp_path / "out")
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "apt install nodejs" in static.missing(static.NODE, one)
    assert "apt install nginx" in static.missing(static.ENGINE_X, one)
    assert static.missing(static.CLOSING, one) == ""
    assert status_of(static, tmp_path / "x") == 2  # there is no wrk
    said = capsys.readouterr().err
    assert "wrk" in said and said.count("\n") == 1
    for name in ("node", "npm"):  # an npm that fails
        (tmp_path / name).write_text("#!/bin/sh\nexit 1\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(static, "PEERS", tmp_path / ".node-peers")
    assert "npm could not install" in static.missing(static.NODE, one)


# pythons, threads ---------------------------------------------------------


def test_both_servers_on_each_python(
    tmp_path: Path, monkeypatch: Patch, capsys: Said
) -> None:
    monkeypatch.setattr(
        Session, "measure", lambda *_, python, **more: Run(
            "", 10, cpu_user=0.001 if python == GIL.program else 0.003,
        ),
    )  # fmt: skip
    old = Interpreter("/opt/c/python", "3.10", "3.10.1", False)
    monkeypatch.setattr(interpreters, "choose", lambda *_: [old, GIL, FREE])
    monkeypatch.setattr(pythons, "with_distribution", lambda found: found)
    status, kept = run(pythons, tmp_path, "--repeats", "1")
    assert status == 0
    assert [(p.suite, p.server, p.variant) for p in kept.points] == [
        (suite, server, variant)
        for suite in ("pythons-keep", "pythons-new")
        for server in ("06", "07")
        for variant in (
            "3.13.5, plain build", "3.13.5, free-threaded, optimised build",
        )
    ]
    assert "3.00" in capsys.readouterr().out  # of the first


def test_the_systems_python_is_added_if_it_was_built_otherwise(
    monkeypatch: Patch
) -> None:
    monkeypatch.setattr(interpreters, "identify", lambda program: Interpreter(
        program, "3.13", "3.13.1", False, True
    ))  # fmt: skip
    found = pythons.with_distribution([GIL])
    assert [each.program for each in found] == [
        pythons.DISTRIBUTION, GIL.program
    ]
    assert pythons.with_distribution(found) == found


def test_the_gil_is_asked_for() -> None:
    this = interpreters.identify(sys.executable)
    case = threads.Case(this, by_name("03"), "a thread each")
    has = getattr(sys, "_is_gil_enabled", lambda: True)()
    assert threads.has_gil(case) == float(has)
    case = threads.Case(GIL, by_name("03"), "a thread each")
    assert threads.has_gil(case) is None
    assert interpreters.steps_in(this.program, 0.001) >= 1


def test_threads_are_measured_on_each_interpreter(
    tmp_path: Path, monkeypatch: Patch, capsys: Said
) -> None:
    def measure(session: Session, case: threads.Case, *rest: Any) -> Run:
        if case.how == "2 processes":
            raise ServerError("it is bad")
        rate = 200.0 if "2" in case.how else 100.0
        return Run("", 1, requests_per_second=rate, extra={"gil": rest[-1]})

    monkeypatch.setattr(interpreters, "choose", lambda *_: [GIL, FREE])
    monkeypatch.setattr(threads, "measure_one", measure)
    monkeypatch.setattr(
        threads, "has_gil", lambda case: float(case.interpreter is GIL)
    )
    status, kept = run(threads, tmp_path, "--repeats", "1")
    assert status == 1  # of the processes
    assert {(p.server, p.variant.partition(", ")[2]) for p in kept.points} >= {
        ("03", "a thread each"), ("06", "one loop"), ("07", "1 thread"),
        ("07", "2 threads"), ("07", "1 process"), ("07", "2 processes"),
    }
    for point in kept.points:
        if point.status == "ok":
            assert point.median("gil") == float("3.13," in point.variant)
        if point.variant == "3.13, 2 threads":  # against 1 thread
            assert threads.gain(point, kept.points) == "2.00"
    assert kept.tools["python3.13t"] == (
        "3.13.5, free-threaded, optimised build"
    )
    assert "/opt" not in (tmp_path / "results.json").read_text()
    assert kept.tools["python3.13"] == "3.13.5, with the GIL, plain build"
    assert "it is bad" in capsys.readouterr().out


def test_one_thread_each_on_one_core(tmp_path: Path) -> None:
    python = interpreters.identify(sys.executable)
    case = threads.Case(python, by_name("03"), "a thread each", (), True)
    load = Load(2, 40, 5)
    one = threads.measure_one(session(tmp_path), case, 2000, load, 1.0)
    assert one.error is None and one.requests == 40
    name = f"python{python.label} 03_threading/server.py"
    assert one.command.startswith(f"{name} --delay 0 --compute 2000 ")
    bad = threads.Case(python, by_name("03"), "a hat", ("--hat", "2"))
    with pytest.raises(ServerError, match="does not start: "):
        threads.measure_one(session(tmp_path), bad, 10, Load(1, 1, 1), 1.0)


# labs ---------------------------------------------------------------------


@pytest.mark.parametrize(("chosen", "worst", "ran"), [
    (["two", "one"], 0, ["labs-one", "labs-two"]),
    (["one", "bad"], 1, ["labs-bad", "labs-one"]),
    ([], 130, ["labs-bad", "labs-one", "labs-stopped"]),
])
def test_each_lab_has_results_of_its_own(
    chosen: list[str], worst: int, ran: list[str], tmp_path: Path,
    monkeypatch: Patch,
) -> None:
    kinds = {"one": one_run, "bad": lambda one: one_run(one) or 1,
             "stopped": interrupted, "two": one_run}
    monkeypatch.setattr(labs, "LABS", {
        name: SimpleNamespace(measure=measure)
        for name, measure in kinds.items()
    })
    words = ["bench.sh", "labs", *chosen, "--repeats", "2"]
    monkeypatch.setattr(sys, "argv", words)
    asked = argparse.Namespace(
        labs=[chosen], output=tmp_path / "out", reference=False, repeats=2
    )
    assert labs.run(asked) == worst
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ran
    for name in ran:
        found = load(tmp_path / "out" / name)
        assert (found.mode, found.command) == (
            name, f"./bench.sh labs {name.removeprefix('labs-')} --repeats 2"
        )


@pytest.mark.parametrize(("words", "says"), [
    ("labs nonsense", "there is no lab 'nonsense'; there are "),
    ("labs gil --pythons /a/python9", "there is no interpreter /a/pyt"),
    ("labs chain --requests 5", "100 clients cannot share 5"),
    ("threads --pythons /bin/echo", "is not a Python interpreter"),
    ("threads --steps 5 --calibrate", "either --steps or --calibrate"),
    ("labs frames --no-libraries --frame-variants streams,sand",
     "--frame-variants: there is no variant 'sand'; there are "),
    ("labs frames --no-libraries --frame-variants ,",
     "--frame-variants: names no variant"),
    ("hosts nonsense", "there is no experiment 'nonsense'; there are scale"),
    ("hosts --reference storm", "--reference needs all of hosts"),
    ("hosts --reference --smoke", "--reference needs all of hosts"),
])
def test_a_mistake_is_one_sentence(
    words: str, says: str, monkeypatch: Patch, capsys: Said
) -> None:
    monkeypatch.setattr(command, "_catch_signals", lambda: None)
    status: object
    try:
        status = command.main(words.split())
    except SystemExit as end:
        status = end.code
    said = capsys.readouterr().err
    assert status == 2
    assert says in said and said.startswith("bench.sh: ")
    assert said.count("\n") == 1
