"""03_threading/lab_gil.py: its figures, its errors, and its old syntax."""

import json
import shutil
import signal
import subprocess
import sys

import pytest

from tests.marks import Patch
from tests.process import HAS_GIL, eventually
from tools.bench import interpreters
from tools.bench.experiments.gil import PARTS, UNITS
from tools.common.launch import Launched
from tools.servers import ROOT

FILE = ROOT / "03_threading" / "lab_gil.py"
PATIENCE = 300  # seconds, for a very busy machine
QUICK = ("--rounds", "1", "--seconds", "0.05")
thorough = pytest.mark.thorough
COMPILE = "import sys; compile(open(sys.argv[1]).read(), 'lab', 'exec')"


def lab(
    *words: str, program: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, str(FILE), *words], stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=PATIENCE, check=False,
    )


@thorough
def test_every_interpreter_reads_it() -> None:
    for python in interpreters.find():
        done = subprocess.run(
            [python.program, "-W", "error", "-c", COMPILE, str(FILE)],
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )
        assert done.returncode == 0, (python.label, done.stderr)


@thorough
def test_python_2_runs_it() -> None:
    old = [each for each in interpreters.find() if each.label == "2.7"]
    if not old:
        pytest.skip("there is no Python 2.7 on this machine")
    done = lab(*QUICK, "--json", "--only", "compute", "--only", "hand-over",
               "--only", "answer", program=old[0].program)
    assert done.returncode == 0, done.stderr
    figures = json.loads(done.stdout)["figures"]
    assert set(figures) == {n for n in UNITS if not n.startswith("pool")}


@thorough
def test_all_figures_are_there() -> None:
    """And none is nonsense, even in so short a time."""
    done = lab(*QUICK, "--json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    wanted = set(UNITS)
    if not shutil.which("ab"):
        wanted = {name for name in wanted if not name.startswith("pool")}
        assert "apache2-utils" in done.stderr
    assert set(said["figures"]) == wanted
    for name, values in said["figures"].items():
        assert len(values) == 1 and values[0] >= 0, name
    assert said["gil"] == HAS_GIL
    assert "round 1 of 1" in done.stderr  # it shows where it is
    if said["gil"]:  # the hog keeps the GIL for the whole interval
        figures = said["figures"]
        assert figures["answer_hog_usual"][0] >= 4
        assert figures["answer_hog_long"][0] >= 40


def test_the_table_has_medians_and_spread() -> None:
    done = lab("--rounds", "2", "--seconds", "0.05", "--only", "compute")
    assert done.returncode == 0, done.stderr
    assert "two computing threads do" in done.stdout
    assert " to " in done.stdout.splitlines()[-1]
    assert len(done.stdout.splitlines()) == 2  # the interpreter, the figure


@pytest.mark.parametrize(("words", "says", "status"), [
    (("--rounds", "0"), "'0' is not a number from 1 to 50", 2),
    (("--rounds", "x"), "'x' is not a number", 2),
    (("--seconds", "0"), "not a number from 0.05 to 60", 2),
    (("--only", "nonsense"), "nonsense", 2),
    (("--cpus", "99"), "--cpus 99 cannot be: this process has", 1),
])
def test_nonsense_is_one_sentence(
    words: tuple[str, ...], says: str, status: int
) -> None:
    if words[0] == "--cpus" and sys.platform != "linux":
        pytest.skip("CPUs can be chosen on Linux only")
    done = lab(*words)
    assert done.returncode == status
    assert says in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr


def test_without_ab_the_rest_is_measured(monkeypatch: Patch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    done = lab(*QUICK, "--only", "compute", "--only", "pool", "--json")
    assert done.returncode == 0, done.stderr
    assert list(json.loads(done.stdout)["figures"]) == ["efficiency"]
    assert "apt install apache2-utils" in done.stderr


def test_an_interrupt_ends_it_and_its_threads() -> None:
    words = (str(FILE), "--only", "hand-over", "--seconds", "60")
    with Launched([sys.executable, *words]) as child:
        # Interrupts before the threads run would not be the case we mean.
        assert eventually(lambda: child.threads() >= 3, PATIENCE)
        assert "round 1" in child.complaints
        child.signal(signal.SIGINT)
        assert child.wait(PATIENCE) == 130


def test_parts_and_units_are_those_of_the_lab() -> None:
    done = lab("--help")
    assert all(part in done.stdout for part in PARTS)
