"""The lab about the GIL: its program on each interpreter, its figures."""

import json
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from labs.gil import lab, measure
from tests.marks import Patch
from tests.process import HAS_GIL, eventually
from tests.tools.experiment import printed as run_python
from tests.tools.experiment import run
from tools.bench import interpreters
from tools.bench.experiments import labs
from tools.bench.interpreters import Interpreter, identify
from tools.common.launch import Launched
from tools.servers import ROOT
from tools.site.figures import FIGURES

FILE = ROOT / measure.FILE
PATIENCE = 300  # seconds, for a very busy machine
QUICK = ("--rounds", "2", "--seconds", "0.05", "--only", "compute")


def printed(
    *words: str, program: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, str(FILE), *words], stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )


@pytest.mark.thorough
def test_every_interpreter_runs_it() -> None:
    for python in interpreters.find():
        done = printed(*QUICK, "--only", "hand-over", "--only", "answer",
                       "--json", program=python.program)
        assert done.returncode == 0, (python.label, done.stderr)
        found = json.loads(done.stdout)["figures"]
        new = interpreters.numbers(python) >= [3, 14]
        assert ("efficiency_interpreters" in found) == new
        assert [len(each) for each in found.values()] == [2] * (11 + new)


@pytest.mark.thorough
def test_smoke(tmp_path: Path, monkeypatch: Patch) -> None:
    """A round on this interpreter, and on one that is not there."""
    here = identify(sys.executable)
    gone = Interpreter("/a/python", "3.8", "3.8.1", False)
    monkeypatch.setattr(interpreters, "choose", lambda words: [gone, here])
    monkeypatch.setattr(measure, "CPUS", (1,))
    words = "gil", "--gil-seconds", "0.05", "--repeats", "1"
    status, kept = run(labs, tmp_path, *words)
    assert status == 1
    failed, good = kept.points
    assert failed.reason == "/a/python: No such file or directory"
    figures = good.runs[0].extra
    assert figures.pop("gil") == HAS_GIL
    assert set(figures) <= set(FIGURES)  # each has words for its axis
    more = "efficiency_interpreters_times" in figures
    assert len(figures) == (15 if shutil.which("ab") else 11) + more
    assert all(value > 0 for value in figures.values())
    assert good.runs[0].command.startswith(f"python{here.label} labs/gil/")
    assert here.version in kept.tools[f"python{here.label}"]


@pytest.mark.parametrize(("words", "says", "status"), [
    (QUICK, "two computing threads do", 0),
    (("--rounds", "x"), "invalid int value: 'x'", 2),
    (("--seconds", "0"), "--seconds is a number from 0.05 to 60", 2),
    (("--only", "nonsense"), "nonsense", 2),
    (("--cpus", "99"), "--cpus ", 1),
])
def test_a_table_or_one_sentence(
    words: tuple[str, ...], says: str, status: int
) -> None:
    done = printed(*words)
    assert done.returncode == status
    shown = done.stderr if status else done.stdout
    lines = 1 if status else 3 + bool(lab.interpreters)
    assert says in shown and shown.count("\n") == lines


def test_without_ab_the_rest_is_measured(monkeypatch: Patch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    done = printed(*QUICK, "--only", "pool", "--json")
    found = list(json.loads(done.stdout)["figures"])
    assert found[:2] == ["efficiency", "efficiency_processes"]
    assert len(found) == 2 + bool(lab.interpreters)
    assert "apt install apache2-utils" in done.stderr


@pytest.mark.skipif(sys.platform != "linux", reason="it needs Linux")
def test_so_few_cpus_and_no_more() -> None:
    script = "from labs.gil.lab import use_cpus as u; import os; u(1); "
    done = run_python("-c", script + "print(len(os.sched_getaffinity(0)))")
    assert (done.stdout, done.returncode) == ("1\n", 0)


def test_the_hog_computes_until_its_block_ends() -> None:
    with lab.Hog(True) as hog:
        assert hog.thread.is_alive()
    assert not hog.thread.is_alive()


def test_an_interrupt_ends_it_and_its_threads() -> None:
    words = (str(FILE), "--only", "hand-over", "--seconds", "60")
    with Launched([sys.executable, *words]) as child:
        # Interrupts before the threads run would not be the case we mean.
        assert eventually(lambda: child.threads() >= 3, PATIENCE)
        child.signal(signal.SIGINT)
        assert child.wait(PATIENCE) == 130
