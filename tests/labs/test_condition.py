"""The lab about a Condition in C and three kinds of GIL."""

import json
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from unittest.mock import Mock

import psutil
import pytest

from labs.condition import lab, measure
from labs.gil.lab import LabError
from tests.marks import Patch
from tests.process import HAS_GIL, eventually
from tests.tools.experiment import run
from tools.bench import interpreters
from tools.bench.experiments import labs
from tools.bench.interpreters import identify
from tools.common.launch import Launched
from tools.data import raw
from tools.servers import ROOT
from tools.site.figures import FIGURES

PATIENCE = 300.0  # seconds, for a very busy machine
MANY = 3000  # things that are handed over
GIL_FIGURES = {name for name, _ in lab.HEADS} - {"switches_per_hand_over"}
needs_cc = pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("cc"),
    reason="there is no cc for Linux",
)
each_design = pytest.mark.parametrize("design", lab.DESIGNS)


@pytest.fixture(scope="module", name="library")
def built(tmp_path_factory: pytest.TempPathFactory) -> str:
    return lab.build(str(tmp_path_factory.mktemp("a gap, an ü")))


def started(target: Callable[[], object]) -> threading.Thread:
    thread = threading.Thread(target=target, daemon=True)
    thread.start()
    return thread


def ended(*threads: threading.Thread) -> bool:
    """Have they ended? A wake-up that was lost ends here."""
    deadline = time.monotonic() + PATIENCE
    for thread in threads:
        thread.join(max(deadline - time.monotonic(), 0))
    return not any(thread.is_alive() for thread in threads)


class Waiters:
    """Threads that wait for a token each, on one condition."""

    def __init__(self, changed: lab.Native, number: int) -> None:
        self.changed, self.waiting, self.tokens = changed, 0, 0
        self.wake_ups, self.served = 0, 0
        self.threads = [started(self.wait) for _ in range(number)]
        assert eventually(self.all_wait, PATIENCE)

    def wait(self) -> None:
        with self.changed:
            self.waiting += 1
            while not self.tokens:
                self.changed.wait()
                self.wake_ups += 1
            self.tokens -= 1
            self.served += 1

    def all_wait(self) -> bool:
        with self.changed:  # so each has given the lock away, to wait
            return self.waiting == len(self.threads)

    def give(self, tokens: int, notify: Callable[[], object]) -> None:
        with self.changed:
            self.tokens += tokens
            notify()


@needs_cc
@each_design
def test_no_wake_up_is_lost(library: str, design: str) -> None:
    changed, taken = lab.Native(library, design), list[int]()
    box = list[int]()

    def produce() -> None:
        for number in range(MANY):
            with changed:
                while box:
                    changed.wait()
                box.append(number)
                changed.notify()

    def consume() -> None:
        while len(taken) < MANY:
            with changed:
                while not box:
                    changed.wait()
                taken.append(box.pop())
                changed.notify()

    assert ended(started(produce), started(consume))
    assert taken == [*range(MANY)]


@needs_cc
@each_design
def test_the_lock_lets_one_in(library: str, design: str) -> None:
    changed, counted = lab.Native(library, design), [0]

    def count() -> None:
        for _ in range(100):
            with changed:
                before = counted[0]
                time.sleep(0)  # whoever waits could run now
                counted[0] = before + 1

    assert ended(*[started(count) for _ in range(4)])
    assert counted == [400]


@needs_cc
@each_design
def test_a_notify_is_not_remembered(library: str, design: str) -> None:
    changed = lab.Native(library, design)
    with changed:
        changed.notify()
        changed.notify_all()
        begun = time.monotonic()
        assert not changed.wait(0.05)
        assert time.monotonic() - begun > 0.04
        assert not changed.wait(0)
        assert not changed.try_acquire()  # it has the lock again


@needs_cc
@each_design
def test_each_notify_wakes_one(library: str, design: str) -> None:
    changed = lab.Native(library, design)
    two = Waiters(changed, 2)
    two.give(1, changed.notify)
    assert eventually(lambda: two.served, PATIENCE)
    two.give(1, changed.notify)
    assert ended(*two.threads)
    if design == "semaphore":  # the others may wake one in vain
        assert two.wake_ups == 2


@needs_cc
@each_design
def test_notify_all_wakes_all(library: str, design: str) -> None:
    changed = lab.Native(library, design)
    three = Waiters(changed, 3)
    three.give(3, changed.notify_all)
    assert ended(*three.threads)


@needs_cc
@each_design
def test_who_gave_up_is_not_notified(library: str, design: str) -> None:
    changed = lab.Native(library, design)
    one = Waiters(changed, 0)
    with changed:  # this one waits first, and stops first
        one.threads.append(started(one.wait))
        while not one.waiting:
            changed.wait(0.01)
    one.give(1, changed.notify)
    assert ended(*one.threads)


# The program ---------------------------------------------------------------


def printed(
    *words: str, program: str = sys.executable
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [program, "-m", measure.MODULE, *words], stdin=subprocess.DEVNULL,
        capture_output=True, text=True, timeout=PATIENCE, check=False,
        cwd=ROOT,
    )


@needs_cc
@pytest.mark.parametrize("kind", [*lab.IN_C, *lab.GILS])
def test_threads_in_c_exclude_each_other_and_make_progress(kind: str) -> None:
    """In a process of its own: what hangs can be ended there."""
    # Of some 100,000 wake-ups, a wrong design loses one.
    seconds = 1.0 if kind in lab.IN_C else 0.05
    found = {"handed_per_second": 0.0}
    while not all(found.values()):  # none may have had its turn yet
        assert seconds < 60
        words = "--json", "--only", kind, "--seconds", f"{seconds:g}"
        done = printed(*words)
        if done.returncode:
            assert "a hog never ran" in done.stderr
        else:
            found = json.loads(done.stdout)["figures"][kind]
        seconds *= 4
    in_c = {"handed_per_second", "switches_per_hand_over"}
    assert {*found} == (in_c if kind in lab.IN_C else GIL_FIGURES)


@needs_cc
def test_two_with_the_gil_are_noticed(monkeypatch: Patch) -> None:
    def wrong(*words: object) -> None:
        words[-1][:] = [1, 1, 1]  # type: ignore[index]

    library = Mock(gil_measure=wrong)
    monkeypatch.setattr("ctypes.CDLL", lambda path: library)
    with pytest.raises(LabError, match="at the same time"):
        lab.measure_gil(0, "", 0.05)


@pytest.mark.parametrize(("words", "says"), [
    (("--only", "Lock,x"), "lab.py: there is no 'x'; there are Lock, Con"),
    (("--seconds", "0"), "lab.py: --seconds is a number from 0.05 to 60"),
    (("--cpus", "99"), "lab.py: --cpus "),
])
def test_nonsense_is_one_sentence(words: tuple[str, ...], says: str) -> None:
    done = printed(*words)
    assert done.returncode and not done.stdout.count("\n") > 2
    assert done.stderr.startswith(says) and done.stderr.count("\n") == 1


@pytest.mark.parametrize(("cc", "why"), [
    ("", "there is no C compiler cc, so only Python's own"),
    ("#!/bin/sh\necho oh no; exit 1\n", "Condition are measured: oh no"),
])
@pytest.mark.skipif(sys.platform != "linux", reason="it needs Linux")
def test_without_cc_the_rest_is_measured(
    cc: str, why: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    file = tmp_path / "cc"
    file.write_text(cc)
    file.chmod(0o700 if cc else 0o600)
    monkeypatch.setenv("PATH", str(tmp_path))
    done = printed("--seconds", "0.05", "--only", "futex,Lock")
    assert why in done.stderr and done.stderr.count("\n") == 1
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].split()[0] == "Lock"
    done = printed("--only", "futex")
    assert done.returncode == 1 and why in done.stderr


@needs_cc
@pytest.mark.thorough
def test_every_interpreter_runs_it() -> None:
    for python in interpreters.find():
        done = printed("--seconds", "0.05", "--only", "Lock,Condition,futex",
                       "--json", program=python.program)
        assert done.returncode == 0, (python.label, done.stderr)
        found = json.loads(done.stdout)["figures"]
        assert [*found] == ["Lock", "Condition", "futex"]


@needs_cc
@pytest.mark.thorough
def test_an_interrupt_ends_it_and_leaves_nothing(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    words = ("-m", measure.MODULE, "--only", "futex", "--seconds", "60")
    with Launched([sys.executable, *words], cwd=ROOT) as child:
        # Interrupts before the threads run would not be the case we mean.
        own = psutil.Process(child.pid)  # cc is a process of its own
        assert eventually(lambda: own.num_threads() >= 3, PATIENCE)
        child.signal(signal.SIGINT)
        assert child.wait(PATIENCE) == 130
    assert not [*tmp_path.iterdir()]


@pytest.mark.thorough
@pytest.mark.parametrize("has_cc", [
    pytest.param(True, marks=needs_cc), False,
])
def test_smoke(has_cc: bool, tmp_path: Path, monkeypatch: Patch) -> None:
    here = identify(sys.executable)
    monkeypatch.setattr(interpreters, "choose", lambda words: [here])
    monkeypatch.setattr(measure, "CPUS", (1,))
    if not has_cc:
        none = Mock(side_effect=LabError("there is no C compiler"))
        monkeypatch.setattr(lab, "build", none)
    words = "condition", "--condition-seconds", "0.2", "--repeats", "1"
    status, kept = run(labs, tmp_path, *words)
    assert status == 0
    python = f"{here.label}, 1 CPU"
    names = {(kind, python) for kind in lab.OWN}
    if has_cc:
        names |= {(kind, python) for kind in lab.DESIGNS}
        names |= {(k, "C, 1 CPU") for k in (*lab.DESIGNS, *lab.GILS)}
    assert {(p.server, p.variant) for p in kept.points} == names
    for point in kept.points:
        figures = point.runs[0].extra
        assert figures.pop("gil") == HAS_GIL
        assert set(figures) <= set(FIGURES)  # each has words for its axis
        assert point.runs[0].command.startswith(f"python{here.label} -m lab")
    text = (tmp_path / "results.json").read_text() + "".join(
        raw.read(tmp_path, name) for name in raw.names(tmp_path)
    )
    assert tempfile.gettempdir() not in text
