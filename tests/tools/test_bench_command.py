"""./bench.sh: its command line, a real small run, an interrupted one."""

import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from tests.marks import Patch, Said
from tests.tools.experiment import session
from tools.bench import __main__ as command
from tools.bench import plan, preflight, wrk
from tools.bench.peers import start
from tools.common.launch import Launched, eventually
from tools.data import raw, results
from tools.peers import PEERS, select
from tools.servers import ROOT, SERVERS, SKETCHES, by_name

SMOKE = (
    sys.executable, "-m", "tools.bench", "--smoke", "--only", "02,06-protocol",
    "--load", "python", "--no-site", "--output",
)

DEMO = """\
HELP = "a demonstration (no time at all)"
ON_EVERY_PAGE = True

OPTIONS = [("--size", {"type": int, "default": 0})]

def run(options):
    print("measured")
    return options.size
"""


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: Patch) -> Iterator[list[dict[str, str]]]:
    """An experiment called demo; with which words the site was built."""
    (tmp_path / "x_a_demo.py").write_text(DEMO)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(command, "EXPERIMENTS", {"demo": "x_a_demo"})
    monkeypatch.setattr(command, "_catch_signals", lambda: None)
    built: list[dict[str, str]] = []

    def build(console: Console, **environment: str) -> int:
        built.append(environment)
        return 0

    monkeypatch.setattr(command, "_build_site", build)
    yield built
    sys.modules.pop("x_a_demo", None)


def refused(words: list[str], capsys: Said) -> str:
    """The one sentence on stderr, with exit status 2."""
    with pytest.raises(SystemExit) as caught:
        command.main(words)
    said = capsys.readouterr()
    assert (caught.value.code, said.out) == (2, "")
    assert said.err.count("\n") == 1
    return said.err


@pytest.mark.parametrize(("words", "sentence"), [
    ("--only nonsense", "no server is called 'nonsense'"),
    ("--only ,", "it names no server"),
    ("--smoke --only 02-sketch", "--only names no server"),
    ("--repeats 0", "'0' is not a number from 1 to 50"),
    ("--repeats many", "'many' is not a number from 1 to 50"),
    ("--full --smoke", "not allowed with"),
    ("--peers banana", "no peer is called 'banana'; there are nginx,"),
    ("--peers ,", "--peers names no peer"),
    ("--peers nginx --full", "not allowed with"),
    ("--peers nginx --reference", "--reference with --peers needs all"),
    ("--reference", "--reference needs --full"),
    ("--full --only 3 --reference", "needs --full, and all"),
    ("--full --reference --output x", "not allowed with"),
    (shlex.join(["--output", __file__]), "it names a file, not a folder"),
    ("--banana", "--banana"),
    ("--beside", "expected at least one argument"),
    ("--beside nowhere", "--beside nowhere: results.json cannot be re"),
    ("--beside x --smoke", "not allowed with"),
    ("--beside x --only 3", "--beside measures nothing"),
    ("--beside x --no-site", "--beside is there to build the site"),
    (shlex.join(["--beside", f"{ROOT}/docs/data/crowd"]),
     "it holds a run of crowd, and"),
    ("banana", "there is no experiment 'banana'; there are demo"),
    ("demo --size x", "argument --size: invalid int value"),
    ("demo again", "unrecognized arguments: again"),
])
def test_nonsense_gives_one_sentence_and_status_2(
    words: str, sentence: str, capsys: Said, demo: object
) -> None:
    assert sentence in refused(shlex.split(words), capsys)


@pytest.mark.parametrize(("words", "names"), [
    ("--only 7", "07 07-emulated"), ("--only 03-sketch", "03-sketch"),
    ("--only 7 --sketches", "07 07-emulated 07-sketch"),
    ("--only 03-pool --full", "03-pool"), ("--smoke", "02 03 06"),
    ("--only 02,07 --full", "02 07 07-emulated 02-sketch 07-sketch"),
    ("--smoke --sketches", "02 03 06"), ("--peers nginx --only 1", "01"),
])
def test_which_servers_and_sketches_are_measured(
    words: str, names: str
) -> None:
    options = command.parse(words.split())
    chosen = [*options.servers, *options.sketches]
    assert [one.name for one in chosen] == names.split()


def test_results_already_there_are_untouched(
    tmp_path: Path, capsys: Said
) -> None:
    file = tmp_path / "results.json"
    file.write_text("precious")
    for option in ("--output", "--beside"):
        refused([option, str(tmp_path)], capsys)
    assert file.read_text() == "precious"


def test_others_results_beside_the_reference(
    tmp_path: Path, demo: list[dict[str, str]]
) -> None:
    file = tmp_path / "anna.json"
    file.write_bytes((results.REFERENCE / "results.json").read_bytes())
    folder = os.path.relpath(results.REFERENCE)
    assert command.main(["--beside", str(file), folder]) == 0
    names = f"{file}{os.pathsep}{results.REFERENCE}"
    assert demo == [{"SEVEN_BESIDE": names}]


def test_help_names_everything(capsys: Said, demo: object) -> None:
    for words in (["--help"], ["--only", "02,03", "--help"]):
        with pytest.raises(SystemExit) as caught:
            command.main(words)
        assert caught.value.code == 0
        said = capsys.readouterr().out
        for option in ("--classic", "--full", "--only", "--beside"):
            assert option in said
        names = [one.name for one in (*SERVERS, *SKETCHES)]
        for name in (*names, *(peer.name for peer in PEERS)):
            assert name in said
        assert "demo         a demonstration (no time at all)" in said


@pytest.mark.parametrize("name", command.EXPERIMENTS)
def test_every_experiment_explains_itself(name: str, capsys: Said) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main([name, "--help"])
    assert caught.value.code == 0
    assert "--output DIR" in capsys.readouterr().out


@pytest.mark.parametrize(("words", "status", "built"), [
    ([], 0, 1), (["--size", "4"], 4, 0), (["--no-site"], 0, 0),
    (["--output", "x"], 0, 0),
])
def test_an_experiment_runs_and_the_site_shows_it(
    words: list[str], status: int, built: int, demo: list[dict[str, str]],
    capsys: Said,
) -> None:
    assert command.main(["demo", *words]) == status
    assert "measured" in capsys.readouterr().out
    assert len(demo) == built


def test_a_site_that_cannot_be_built(demo: object, monkeypatch: Patch) -> None:
    monkeypatch.setattr(command, "_build_site", lambda *_, **more: 1)
    assert command.main(["demo"]) == 1


def test_an_experiment_is_not_the_readers_run_of_the_steps(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(results, "OWN", tmp_path)
    run = results.load(results.REFERENCE)
    for name, mode in {"1": "full", "2": "demo", "3": "smoke"}.items():
        run.mode = mode
        run.save(tmp_path / name)
    assert results.newest_own() == tmp_path / "1"


@pytest.mark.thorough
def test_a_small_run_is_saved_and_names_no_machine(tmp_path: Path) -> None:
    done = subprocess.run(
        [*SMOKE, str(tmp_path)], capture_output=True, text=True, cwd=ROOT,
        timeout=300, check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = results.load(tmp_path)
    assert found.complete
    assert (found.mode, found.load) == ("smoke", "python")
    assert found.command == (
        "./bench.sh --smoke --only 02,06-protocol --load python"
    )
    assert [(p.server, p.suite, p.status) for p in found.points] == [
        (name, suite, "ok")
        for suite in ("classic", "raw-keep") for name in ("02", "06-protocol")
    ]
    rows = [line.split() for line in done.stdout.splitlines()]
    for name in ("02", "06-protocol"):  # in both tables
        shown = [row for row in rows if row[:1] == [name]]
        assert sum("$" not in row and len(row) >= 8 for row in shown) == 2
    texts = [(tmp_path / "results.json").read_text()]
    texts += [raw.read(tmp_path, name) for name in raw.names(tmp_path)]
    names = {str(ROOT), str(Path.home()), os.uname().nodename, sys.executable}
    for text in texts:
        for name in names - {"", "/", "localhost"}:
            assert name not in text


@pytest.mark.thorough
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_what_it_has(
    tmp_path: Path, number: int
) -> None:
    process = Launched([*SMOKE, str(tmp_path), "--repeats", "50"], cwd=ROOT)
    try:
        assert eventually((tmp_path / "results.json").exists, 60)
        _, *family = process.processes()
        process.signal(number)
        assert process.wait(60) == 130
        assert "Interrupted: what was measured is in" in process.output
    finally:
        process.kill()
    found = results.load(tmp_path)
    assert not found.complete
    assert found.points
    assert not psutil.wait_procs(family, 10)[1]


def test_an_interrupt_loses_no_exit_status(monkeypatch: Patch) -> None:
    real = os.wait4

    def wait4(pid: int, options: int) -> object:
        found = real(pid, options)
        if found[0]:
            signal.raise_signal(signal.SIGINT)
        return found

    monkeypatch.setattr(os, "wait4", wait4)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with Launched([sys.executable, "-c", "exit(7)"]) as process:
            with pytest.raises(KeyboardInterrupt):
                process.wait()
            assert process.status() == 7
    finally:
        signal.signal(signal.SIGINT, before)


# The machine --------------------------------------------------------------


@pytest.mark.parametrize(("asked", "told"), [
    (None, True), ("ab", True), ("python", False),
])
def test_without_ab_the_built_in_client_makes_the_load(
    asked: str | None, told: bool, tmp_path: Path, monkeypatch: Patch,
    capsys: Said,
) -> None:
    monkeypatch.setattr(shutil, "which", lambda program: None)
    monkeypatch.setattr(command, "_run", lambda session: None)
    one = session(tmp_path, load=asked, full=False, peers=[], smoke=False)
    assert command._measure(one) == 0
    assert one.results.load == "python"
    said = " ".join(capsys.readouterr().out.split())
    assert (preflight.NO_AB in said) == told
    assert "it is slower than ab" in said


@pytest.mark.parametrize(("user", "installed"), [("0", True), ("7", False)])
def test_root_gets_ab(user: str, installed: bool, tmp_path: Path) -> None:
    log = tmp_path / "log"
    fakes = {"id": f"echo {user}", "apt-get": f'echo "$@" >> {log}'}
    for name, line in fakes.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{line}\n")
        (tmp_path / name).chmod(0o755)
    for name in ("dirname", "uname"):
        (tmp_path / name).symlink_to(shutil.which(name) or "")
    bash = shutil.which("bash") or "bash"
    subprocess.run(  # it ends there: this path has no Python
        [bash, "bench.sh", "--help"], cwd=ROOT, env={"PATH": str(tmp_path)},
        stderr=subprocess.DEVNULL, check=False,
    )
    found = log.read_text() if log.exists() else ""
    assert ("install -y apache2-utils" in found) == installed


def test_what_is_missing_for_the_peers_is_a_row(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    measured: list[plan.Task] = []
    monkeypatch.setattr(start, "missing", lambda *_: {"node": "no node"})
    monkeypatch.setattr(start, "versions", lambda peers: {})
    monkeypatch.setattr(wrk, "version", lambda: None)
    monkeypatch.setattr(
        command, "measure_all", lambda _, tasks, often: measured.extend(tasks)
    )
    one = session(
        tmp_path, peers=select("nginx,node"), servers=[by_name("03")]
    )
    command._run_peers(one)
    assert [(t.suite, t.server.name) for t in measured] == [
        ("peer-new", "nginx"), ("peer-new", "03"),
    ]
    saved = results.load(one.folder).points
    whys = {(p.suite, p.server): p.reason for p in saved}
    assert len(whys) == 7
    assert whys["peer-new", "node"] == "no node"
    assert whys["peer-keep", "nginx"].startswith("wrk is not installed: ")


def test_facts_about_the_machine() -> None:
    machine = preflight.machine(1024)
    assert machine.cores >= 1
    assert machine.memory > 10**8
    assert machine.python.split()[1].count(".") == 2
    assert os.uname().nodename not in machine.kernel.split()
    text = " ".join(preflight.notes(256, 4096))
    assert "More than 192 clients are not possible" in text
    assert "256 open files" in text


@pytest.mark.parametrize(("words", "flag", "plain"), [
    ("", "-fprofile", True), ("--enable-optimizations", "-f", False),
    ("", None, False),
])
def test_a_plain_build_of_python_is_told(
    words: str, flag: str | None, plain: bool, monkeypatch: Patch
) -> None:
    known = {"CONFIG_ARGS": words, "PGO_PROF_USE_FLAG": flag}
    monkeypatch.setattr(sysconfig, "get_config_var", known.get)
    assert preflight.machine(1).python.endswith(", plain build") == plain


@pytest.mark.parametrize(("release", "kernel"), [
    ("6.1.0-18-amd64", "Linux 6.1.0"),
    ("5.15.90.1-microsoft-standard-WSL2", "Linux 5.15.90.1 (WSL)"),
    ("6.9-anna+", "Linux 6.9"),
])
def test_releases_lose_the_names_in_them(
    release: str, kernel: str, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    monkeypatch.setattr(platform, "release", lambda: release)
    assert preflight._kernel() == kernel
