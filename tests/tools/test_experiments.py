"""The experiments of the bench: their options, rounds, loads, results."""

import argparse
import py_compile
import shlex
import sys
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.marks import Patch, Said
from tests.tools.experiment import run, session, status_of
from tools.bench import __main__ as command
from tools.bench import interpreters, outcome, preflight, wrk
from tools.bench import session as sessions
from tools.bench.experiments import compare, ideas, labs
from tools.bench.interpreters import Interpreter
from tools.bench.peers import start as peers
from tools.bench.server import ServerError
from tools.bench.session import Refused, Session, conduct
from tools.common.raw_client import GET, Client
from tools.data.results import DATA, Point, Results, Run, load
from tools.peers import Peer
from tools.servers import ROOT, by_name

GIL = Interpreter("/opt/a/python", "3.13", "3.13.5", False)
FREE = Interpreter("/opt/b/python", "3.13t", "3.13.5", True, True)


# Options ------------------------------------------------------------------


def test_a_command_has_no_folder_of_this_machine() -> None:
    words = ["demo", "--way", "a=/home/me/x,/y/z", "--output", "/tmp/o",
             "--output=/tmp/o", "--repeats", "3"]
    assert outcome.as_typed(words) == (
        "./bench.sh demo --way a=x,z --repeats 3"
    )


@pytest.mark.parametrize(("words", "says"), [
    ("crowd --clients 0", "--clients: "), ("crowd --repeats 51", "--repeats"),
    ("crowd --output pyproject.toml", "it names a file, not a folder"),
    ("crowd --output docs/data/crowd", "a folder that already holds results"),
    ("crowd --output new --reference", "not allowed with argument --output"),
    ("scale --seconds no", "--seconds: "), ("hold --clients x", "--clients: "),
    ("hold --clients ,", "--clients: "),
    ("hold --clients 9999999", "--clients: "), ("hold --only 99", "--only: "),
    ("hold --only ,", "it names no server"), ("hold --delay 0", "--delay: "),
    ("hold --options '", "No closing quotation"),
    ("labs --parts none", ""), ("labs --servers ,", ""),
    ("labs --frame-size many", "--frame-size: "),
    ("record --reference --output x", "not allowed with"),
    ("record 07", "unrecognized arguments: 07"),
    ("labs nonsense", "there is no lab 'nonsense'; there are "),
    ("labs gil --pythons /a/python9", "there is no interpreter /a/pyt"),
    ("labs chain --requests 5", "100 clients cannot share 5"),
    ("threads --pythons /bin/echo", "is not a Python interpreter"),
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
    monkeypatch.chdir(ROOT)
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


# A session ----------------------------------------------------------------


def one_run(session: Session) -> int:
    session.keep(Point("07", "demo", 1, 0.0), Run("command"))
    return 0


def interrupted(session: Session) -> int:
    one_run(session)
    raise KeyboardInterrupt


@pytest.mark.parametrize(("points", "end", "status", "says"), [
    (1, 0, 0, "Figures and raw outputs:"),
    (1, 1, 1, "Figures and raw outputs:"),
    (1, KeyboardInterrupt(), 130, "Interrupted: what was measured is in"),
    (0, KeyboardInterrupt(), 130, "Interrupted before anything was measured."),
    (1, OSError(28, "No space left on device"), 1, "Stopped: No space left "
     "on device."),
    (0, Refused("no such thing"), 2, "bench.sh: no such thing\n"),
])
def test_however_it_ends_what_was_measured_is_kept(
    points: int, end: BaseException | int, status: int, says: str,
    tmp_path: Path, monkeypatch: Patch, capsys: Said,
) -> None:
    """Only a good run becomes the committed one."""
    monkeypatch.setattr(sessions, "DATA", tmp_path / "data")
    old = tmp_path / "data" / "demo" / "old"
    old.parent.mkdir(parents=True)
    old.write_text("old")

    def measure(session: Session) -> int:
        for _ in range(points):
            one_run(session)
        if isinstance(end, BaseException):
            raise end
        return end

    folder = tmp_path / "out"
    chosen = argparse.Namespace(output=folder, reference=True, repeats=None)
    assert conduct("demo", chosen, measure) == status
    said = capsys.readouterr()
    assert says in said.out + said.err
    assert old.exists() == bool(status)
    assert folder.exists() == bool(points and status)
    if points:
        found = load(folder if status else old.parent)
        assert (found.mode, len(found.points)) == ("demo", 1)
        assert found.complete == (not isinstance(end, BaseException))


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


# crowd, gains, pythons, scale, static, threads ------------------------------


@pytest.mark.parametrize("name", command.COMPARED)
def test_it_measures_what_the_committed_run_has(
    name: str, tmp_path: Path, monkeypatch: Patch, capsys: Said
) -> None:
    def measure(*given: object, **more: object) -> Run:
        return Run("", 10, requests_per_second=100.0, cpu_user=0.001)

    def points(results: Results) -> list[tuple[object, ...]]:
        return [
            (p.server, p.suite, p.clients, p.delay, p.keep_alive, p.variant)
            for p in results.points
        ]

    pythons = [
        Interpreter("/opt/python", version[:4], version, False, best)
        for version, best in (
            ("3.10.9", True), ("3.11.2", True), ("3.12.1", False),
            ("3.13.0", False),
        )
    ]
    if name == "threads":
        pythons = [GIL, FREE]
    monkeypatch.setattr(interpreters, "choose", lambda *_: pythons)
    monkeypatch.setattr(interpreters, "steps_in", lambda *_: 1000)
    monkeypatch.setattr(Session, "measure", measure)
    monkeypatch.setattr(compare, "static_run", measure)
    monkeypatch.setattr(compare, "static_missing", lambda peer: "")
    monkeypatch.setattr(compare, "raise_open_files", lambda wanted: wanted)
    monkeypatch.setattr(preflight, "core_count", lambda: 2)
    monkeypatch.setattr(wrk, "version", lambda: "4.1.0")
    status, kept = run(name, tmp_path, "--repeats", "1")
    assert status == 0
    assert points(kept) == points(load(DATA / name))
    assert "/opt" not in (tmp_path / "results.json").read_text()
    said = capsys.readouterr().out
    shown = compare.EXPERIMENTS[name].columns
    assert all(column.split()[0] in said for column in shown)
    if name == "pythons":
        assert "Not on the PATH: pypy3.11, python3.13t, python3.14," in said
    if name == "threads":
        assert kept.tools["python3.13"] == "3.13.5, with the GIL, plain build"


@pytest.mark.thorough
@pytest.mark.parametrize(("name", "words", "least"), [
    ("crowd", "--clients 5", 2), ("scale", "", 3),
    ("threads", f"--pythons {shlex.quote(sys.executable)}", 6),
])
def test_a_whole_run_is_kept_and_shown(
    name: str, words: str, least: int, tmp_path: Path, monkeypatch: Patch,
    capsys: Said,
) -> None:
    monkeypatch.setattr(interpreters, "steps_in", lambda *_: 1000)
    words += " --seconds 1 --repeats 1"
    status, kept = run(name, tmp_path, *shlex.split(words))
    assert status == 0 and "requests/s" in capsys.readouterr().out
    assert len(kept.points) >= least
    for point in kept.points:
        (one,) = point.runs
        assert one.requests > 0
        computes = " --compute 1000 " in one.command
        assert computes == (name != "crowd")
        assert ("load_limit_per_second" in one.extra) == (name != "threads")


def test_too_many_clients_for_this_machine(
    tmp_path: Path, monkeypatch: Patch, capsys: Said
) -> None:
    monkeypatch.setattr(compare, "raise_open_files", lambda wanted: 1024)
    assert status_of("crowd", tmp_path / "x") == 2
    assert "4,000 clients are not possible" in capsys.readouterr().err


def test_every_idea_can_still_be_taken_away(tmp_path: Path) -> None:
    original = {
        path.name: path.read_text(encoding="utf-8")
        for path in by_name("07").path.parent.glob("*.py")
    }
    with ideas.copies() as servers:
        for idea in ideas.IDEAS:
            touched = {file for file, _, _ in idea.get("changes", ())}
            for name, text in original.items():
                copy = servers[idea["name"]].path.parent / name
                same = copy.read_text(encoding="utf-8") == text
                assert same == (name not in touched), (idea, name)
                py_compile.compile(str(copy), doraise=True)
    assert not (ROOT / ideas.COPIES).exists()
    wrong = {"name": "none", "changes": [["server.py", "not there", ""]]}
    with pytest.raises(Refused, match="'not there' is 0 times"):
        ideas.patched(wrong, tmp_path)


def test_a_speed_up_is_counted_from_the_same_turn() -> None:
    one, two = (Point("07", "scale", 64, 0.0, variant=v) for v in "12")
    one.runs = [Run("", requests_per_second=r) for r in (100.0, 50.0)]
    for rate, extra in (
        (190.0, {"speed_up_times": 1.9}), (110.0, {"speed_up_times": 2.2}),
        (1.0, {}),  # the other one failed
    ):
        measure = partial(Run, "", requests_per_second=rate)
        two.runs.append(compare.speed_up(measure, one, two))
        assert two.runs[-1].extra == extra


@pytest.mark.parametrize(
    "peer", compare.static_peers(), ids=lambda p: f"{p.name} {p.title}"
)
def test_each_server_serves_the_page(peer: Peer, tmp_path: Path) -> None:
    if why := compare.static_missing(peer):
        pytest.skip(why)
    site = compare.make_site(tmp_path)
    with peers.start(peer, compare.PAGE, site) as process:
        assert str(site) not in process.command
        with Client(process.port) as client:
            version = client.ask(GET).version
    assert version == f"HTTP/1.{int(peer is not compare.CLOSING)}"


def test_what_is_missing_is_a_row_that_says_how_to_get_it(
    monkeypatch: Patch, tmp_path: Path, capsys: Said
) -> None:
    monkeypatch.setattr(compare, "PROGRAM", "nowhere")
    monkeypatch.setattr(peers, "missing", lambda wanted: {})
    assert "npm install" in compare.static_missing(compare.NODE)
    monkeypatch.undo()
    monkeypatch.setenv("PATH", str(tmp_path))
    whys = [*map(compare.static_missing, compare.static_peers())]
    assert "".join(whys).count(" is not installed: apt install") == 2
    assert status_of("static", tmp_path / "x") == 2  # there is no wrk
    said = capsys.readouterr().err
    assert "wrk" in said and said.count("\n") == 1


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
