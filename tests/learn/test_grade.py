"""./learn.sh grade: honest work is graded, hostile work harms nobody."""

import csv
import ctypes
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from tools.common.launch import eventually
from tools.learn import (
    exercises,
    formats,
    grade,
    handed_in,
    protection,
    reports,
    watcher,
)
from tools.learn.__main__ import main
from tools.learn.examine import (
    LONGEST,
    MARK,
    Outcome,
    Report,
    examine,
    processes,
)
from tools.learn.exercises import Exercise
from tools.learn.handed_in import Result, Student
from tools.learn.protection import Place, Protection
from tools.learn.source import check_source
from tools.learn.watcher import Watched, Watcher
from tools.servers import ROOT

FIRST = exercises.by_id("02.1")
SOLUTION = FIRST.solution.read_text()
STARTER = FIRST.starter.read_text()
ORDINARY = 23_456  # a user who is not root, for gradings by such a one

root_only = pytest.mark.skipif(
    os.getuid() != 0, reason="only root can give a submission a user"
)
linux_only = pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux has what protects here"
)


class Class:
    """Students' folders, and the grading of them."""

    def __init__(
        self, folder: Path, capture: pytest.CaptureFixture[str]
    ) -> None:
        self.folder = folder
        self.capture = capture
        self.json = folder / "results.json"
        self.interpreter: list[str] = []  # to run it in another process
        self.said = ""

    def hand_in(
        self, name: str, text: str | bytes, exercise: str = "02.1"
    ) -> Path:
        data = text.encode() if isinstance(text, str) else text
        path = self.path(name, exercise)
        path.write_bytes(data)
        return path

    def path(self, name: str, exercise: str = "02.1") -> Path:
        folder = self.folder / "students" / name / "my" / exercise
        folder.mkdir(parents=True, exist_ok=True)
        return folder / exercises.by_id(exercise).file

    def run(self, *words: str, status: int = 0) -> str:
        """./learn.sh grade with these words; what it said."""
        if not self.interpreter:
            done = main(["grade", *words])
            self.said = "".join(self.capture.readouterr())
        else:
            apart = subprocess.run(
                [*self.interpreter, "-m", "tools.learn", "grade", *words],
                cwd=ROOT, capture_output=True, text=True, check=False,
            )
            done, self.said = apart.returncode, apart.stdout + apart.stderr
        assert done == status, self.said
        assert "Traceback" not in self.said, self.said
        return self.said

    def grade(self, *words: str, status: int = 0) -> dict[str, Any]:
        """Grade all; the results of the first exercise by student."""
        names = sorted(os.listdir(self.folder / "students"))
        folders = [f"students/{name}" for name in names]
        self.run(*folders, "--json", "results.json", *words, status=status)
        found = json.loads(self.json.read_text())
        return {s["name"]: s["results"][0] for s in found["students"]}


@pytest.fixture
def group(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Class]:
    """In a folder that another user can reach."""
    number = f"{os.getpid()}-{time.monotonic_ns()}"
    folder = Path(os.path.realpath("/tmp"), f"seven-class-{number}")
    folder.mkdir()
    folder.chmod(0o755)
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    for name, value in (
        ("SEVEN_CALLER", str(folder)), ("COLUMNS", "200"),
        ("PYTHONDONTWRITEBYTECODE", "1"), ("TMPDIR", str(folder / "tmp")),
    ):
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "tmp"))
    yield Class(folder, capsys)
    shutil.rmtree(folder)


def as_ordinary(group: Class) -> None:
    """Let somebody who is not root do the grading, if we are root."""
    if os.getuid():
        return
    python = shutil.which("python3", path="/usr/bin")
    setpriv = shutil.which("setpriv")
    version = sys.version_info[:2]
    same = python and subprocess.run(
        [python, "-c", f"import sys; sys.exit(sys.version_info[:2]!={version})"
         ], check=False,
    ).returncode == 0
    packages = Path(pytest.__file__).parent.parent
    if not (python and setpriv and same):
        pytest.skip("no Python and packages that an ordinary user may run")
    # An environment like .venv, around a Python that they may run.
    made = group.folder / "venv"
    library = made / "lib" / f"python{version[0]}.{version[1]}"
    library.mkdir(parents=True)
    (library / "site-packages").symlink_to(packages)
    (made / "bin").mkdir()
    (made / "bin" / "python").symlink_to(python)
    (made / "pyvenv.cfg").write_text("home = /usr/bin\n")
    group.interpreter = [
        setpriv, "--reuid", str(ORDINARY), "--regid", str(ORDINARY),
        "--clear-groups", str(made / "bin" / "python"),
    ]
    for path in [group.folder, *group.folder.rglob("students/**/*")]:
        os.chown(path, ORDINARY, ORDINARY)


def text_of(result: dict[str, Any]) -> str:
    """All that a result says."""
    lines = [result["trouble"]]
    for outcome in result["outcomes"]:
        lines += [*outcome["story"], outcome["expected"], outcome["came"]]
    return "\n".join(lines)


# What a grading shows ------------------------------------------------------


def test_the_table_and_the_reports(group: Class) -> None:
    group.hand_in("anna", SOLUTION)
    group.hand_in("=ben", STARTER)
    group.hand_in("dora", "raise SystemExit(1)\n")
    (group.folder / "students" / "cleo").mkdir()
    results = group.grade(
        "--csv", "all.csv", "--reports", "reports", "--jobs", "1"
    )
    assert {k: r["state"] for k, r in results.items()} == {
        "anna": "passed", "=ben": "failed", "cleo": "missing",
        "dora": "failed",
    }
    rows = list(csv.DictReader((group.folder / "all.csv").open()))
    assert [
        (r["student"], r["exercises_passed"], r["tests_passed"], r["tests"],
         r["02.1"]) for r in rows[:3]
    ] == [
        ("'=ben", "0", "2", "5", "failed"),
        ("anna", "1", "5", "5", "passed"),
        ("cleo", "0", "0", "5", "missing"),
    ]
    said = {
        p.stem: p.read_text() for p in (group.folder / "reports").iterdir()
    }
    assert set(said) == {"anna", "_ben", "cleo", "dora"}
    assert "        Expected: " in said["_ben"]
    assert (
        f'Read the page "02 Sockets" on the site, docs/{FIRST.read}\n'
        in said["_ben"]
    )
    assert "not handed in" in said["cleo"]
    assert "02.1 (2 of 5 tests)" in group.said
    assert "02.1 (not handed in)" in group.said
    found = json.loads(group.json.read_text())
    assert ("anna", "02.1 solution", True) in [
        (pair["who"], pair["other"], pair["same"]) for pair in found["alike"]
    ]
    assert "anna" in group.said.partition("\nAlike: ")[2]
    # Once more, with the seed that was noted.
    seed = found["seed"]
    for name in ("anna", "cleo", "dora"):
        shutil.rmtree(group.folder / "students" / name)
    again = group.grade("--seed", str(seed), "--must-pass", status=1)
    assert text_of(again["=ben"]) == text_of(results["=ben"])


def test_what_cannot_be_graded(group: Class) -> None:
    for name in ("anna", "ben"):
        group.hand_in(name, "")
    said = group.run("students/anna", "students/nobody", status=2)
    assert "there is no folder students/nobody" in said
    assert "anna 02.1: failed" in said
    assert "Did you mean" in group.run("students", status=2)
    assert "nobody to grade" in group.run("nowhere", status=2)
    for words in (["--csv", "nowhere/a.csv"], ["--reports", "/dev/null/r"],
                  ["--export", "moodle", "nowhere/a.csv"]):
        said = group.run("students/anna", *words, status=2)
        assert f"cannot write {words[-1]}" in said
    said = group.run("students/anna", "--export", "x", "y", status=2)
    assert "there is no format x" in said
    both = ("students/anna", "students/ben", "--export", "gradescope", "y")
    assert "one student" in group.run(*both, status=2)


@pytest.mark.thorough
def test_both_layouts_and_equal_names(group: Class) -> None:
    for where in ("monday/anna/02.1", "friday/anna/my/02.1"):
        folder = group.folder / where
        folder.mkdir(parents=True)
        shutil.copyfile(FIRST.solution, folder / FIRST.file)
    group.run(
        "monday/anna", "friday/anna", "--reports", "reports", "--must-pass"
    )
    names = sorted(p.name for p in (group.folder / "reports").iterdir())
    assert [n.rpartition("-")[0][-6:] for n in names] == ["friday", "monday"]


def laid_out(folder: Path, paths: Sequence[str]) -> list[Student]:
    """The students of a folder in which these files are."""
    for path in paths:
        file = folder / "class" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("x = 1\n")
    tops = {Path(path).parts[0] for path in paths}
    flat = all((folder / "class" / top).is_file() for top in tops)
    each = [folder / "class" / top for top in sorted(tops)]
    students, wrong = handed_in.find_students(
        [folder / "class"] if flat else each, []
    )
    assert not wrong
    return students


LAYOUTS = {
    "as in my": ["anna/02.1/server.py", "ben/my/02.1/server.py"],
    "without a zero": ["anna/2.1/server.py", "ben/my/2.1/server.py"],
    "a zip's folder": [
        "anna/homework-1/02.1/server.py", "ben/ben/hand in/my/02.1/server.py"
    ],
    "beside others": ["anna/02.1/server.py", "ben/02.1/server.py",
                      "anna/__MACOSX/02.1/server.py", "ben/.git/02.1.py"],
    "Moodle's folders": [
        "anna_7_assignsubmission_file_/2.1/server.py",
        "ben_8_assignsubmission_file_/my/02.1/server.py",
    ],
    "Moodle's files": [
        "anna_7_assignsubmission_file_02.1 server.py",
        "ben_8_assignsubmission_file_2.1.py",
    ],
    "Canvas's files": [
        "anna_7_100_02.1.py", "ben_LATE_8_101_2.1-server-1.py",
    ],
    "Canvas's archives": [
        "anna_7_100_my/02.1/server.py", "ben_LATE_8_101_h w/2.1/server.py",
    ],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_as_they_arrive(tmp_path: Path, layout: str) -> None:
    students = laid_out(tmp_path, LAYOUTS[layout])
    assert [s.name for s in students] == ["anna", "ben"]
    if "'s" in layout and "zip" not in layout:
        assert [s.number for s in students] == ["7", "8"]
    for student in students:
        assert handed_in.take(student, FIRST) == b"x = 1\n"
        assert not student.question([FIRST])


def test_a_file_that_can_only_be_one(tmp_path: Path) -> None:
    names = (
        "anna_7_assignsubmission_file_server.py", "leeben_8_9_server-2.py",
        "cleo_9_10_notes.txt",
    )
    for name in names:
        (tmp_path / name).write_text("x = 1\n")
    anna, cleo, ben = handed_in.find_students([tmp_path], [FIRST])[0]
    assert handed_in.take(anna, FIRST) == handed_in.take(ben, FIRST)
    assert cleo.question([FIRST]) == "not understood: cleo_9_10_notes.txt"
    # Nobody knows which exercise it is.
    anna, _, _ = handed_in.find_students([tmp_path], [])[0]
    assert "assignsubmission_file_server.py" in anna.question([FIRST])


def test_nobody_hands_in_for_a_neighbour(tmp_path: Path) -> None:
    names = ("anna/ben_8_assignsubmission_file_02.1.py", "ben/02.1/server.py",
             "cleo_7_assignsubmission_file_/x_8_assignsubmission_file_2.1.py")
    students = laid_out(tmp_path, names)
    assert [(s.name, s.number) for s in students] == [
        ("anna", ""), ("ben", ""), ("cleo", "7")
    ]


def test_what_is_not_understood_is_named(group: Class) -> None:
    group.hand_in("anna", "")
    students = group.folder / "students"
    for name in ("ben/hw.zip", "cleo/server.py", "dora/02.1/mine.py",
                 "emil/02.1/server.py", "emil/old/02.1/server.py"):
        path = students / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (students / "frieda").symlink_to(students / "anna")
    (students / "gina").mkdir()
    results = group.grade("--csv", "all.csv", status=2)
    assert {name: r["state"] for name, r in results.items()} == {
        "anna": "failed", "ben": "unclear", "cleo": "unclear",
        "dora": "unclear", "emil": "unclear", "gina": "missing",
    }
    for said in (
        "ben: not understood: hw.zip", "cleo: not understood: server.py",
        "dora: not understood: 02.1 (no server.py in it)",
        "emil: not understood: 02.1, old/02.1",
        "students/frieda is a link: name the folder itself",
        "nothing found in",
    ):
        assert said in group.said, said


def test_no_report_is_lost() -> None:
    names = ["a b", "a_b", "a+b", "A_b", "a_b-2"]
    found = reports.names(names)
    assert len({name.casefold() for name in found}) == len(names)
    assert found[1] == "a_b.md" and found[-1] == "a_b-2.md"  # no change


def test_one_reason_is_said_once(group: Class) -> None:
    missing = f"no_such_module_{'x' * 60}"
    group.hand_in("missing", f"import {missing}\n")
    group.grade("--reports", "reports")
    assert "02.1 (0 of 5 tests: it ended: ModuleNotFoundError: " in group.said
    assert missing not in group.said  # in short
    text = (group.folder / "reports" / "missing.md").read_text()
    assert text.count("- ✗ ") == 5, text
    assert text.count("Expected: ") == text.count("But: ") == 1
    assert max(map(len, text.splitlines())) <= 79, text
    assert missing in "".join(text.split())


def failed(came: str, *story: str) -> Outcome:
    """A test that failed."""
    return Outcome("test", "A test", False, 1.0, [*story], "a page", came)


def test_what_differs_is_said_of_each() -> None:
    report = Report("02.1", [failed("none"), failed("two")], 2)
    lines = reports.outcome_lines(report)
    assert lines.count("        Expected: a page") == 2
    assert reports.in_short(Result("failed", report)) == "0 of 2 tests"
    # The same came of different things: each test keeps its story.
    report.outcomes = [failed("none", "sent a"), failed("none", "sent b")]
    lines = reports.outcome_lines(report)
    assert lines.count("    Expected: a page") == 1
    assert "        sent a" in lines and "        sent b" in lines
    # Whatever a submission says stays in the block of code.
    report.outcomes = [failed("none\n# heading\n\n" + "long " * 30)]
    lines = reports.outcome_lines(report)
    assert all(line.startswith(" " * 8) for line in lines[2:] if line)
    assert max(map(len, lines)) <= 79
    # Some tests passed: one reason is not the whole truth.
    report.outcomes = [failed("none"), failed("none")]
    report.outcomes[0].passed = True
    assert reports.in_short(Result("failed", report)) == "1 of 2 tests"
    assert "        But:      none" in reports.outcome_lines(report)


# Hostile submissions -------------------------------------------------------

# What an attack has to know stands above it, as a dictionary.
# Nothing that kills is done before it is certain that it cannot reach us.
KILLS = """\
import os, signal, sys, time
other_user = not {*known["uids"]} & {*os.getresuid()}
other_pids = os.readlink("/proc/self/ns/pid") != known["pids"]
if not (other_user or other_pids):
    sys.exit("not safe to try")
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for pid, number in ((-1, 9), (os.getppid(), 9), (0, signal.SIGTERM)):
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass
"""
WENT_ON = "sys.exit('it ' + 'went on')\n"
FORKS = """\
for _ in range(900):
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
"""
# It tells what came of each thing it tried.
SPY = """\
import ctypes, os, socket, sys
told, reached = [], []
def tries(name, what):
    try:
        what()
        told.append(f"{name}: done")
    except OSError as error:
        told.append(f"{name}: {error.strerror}")
def write(path, size):
    with open(path, "wb") as file:
        for _ in range(size):
            file.write(bytes(1 << 20))
tries("reads", lambda: open(known["other"]))
tries("writes", lambda: write(known["hostile"], 1))
tries("fills", lambda: write("/dev/hostile", 1))
tries("connects", lambda: socket.create_connection(
    ("127.0.0.1", known["port"])))
tries("huge", lambda: write("huge", 100))
kernel = ctypes.CDLL(None, use_errno=True)
def reaches(name, what):
    try:
        if what():
            reached.append(name)
    except OSError:
        pass
def holds(path, word):
    with open(path, "rb") as file:
        return word in file.read()
grader = known["pid"]
reaches("own environment", lambda: "SECRET" in str(os.environ))
for pid in ("1", os.getppid(), grader):
    reaches("environment", lambda: holds(f"/proc/{pid}/environ", b"SECRET"))
reaches("memory", lambda: open(f"/proc/{grader}/mem", "rb"))
reaches("grader", lambda: os.kill(grader, 0) is None)
reaches("terminal", lambda: os.open(known["terminal"], os.O_RDWR))
reaches("tty", lambda: os.open("/dev/tty", os.O_RDWR))
reaches("keys", lambda: kernel.syscall(
    known["keyctl"], 10, -3, b"user", b"seven", 0) > 0)
reaches("copy", lambda: open(known["copy"]))
reaches("classmates", lambda: os.listdir(known["folder"]))
reaches("results", lambda: [n for n in os.listdir("/tmp") if n[:3] == "tmp"
                            and os.listdir("/tmp/" + n)])
reaches("passwords", lambda: open("/etc/passwd"))
reaches("more", lambda: set(os.listdir("/usr")) - {
    "lib", "lib32", "lib64", "share", "bin"})
reaches("programs", lambda: open("/usr/bin/env"))
reaches("library", lambda: open(os.__file__, "ab"))
reaches("python", lambda: open(os.path.realpath(sys.executable), "ab"))
reaches("socket", lambda: socket.socket(socket.AF_UNIX).connect(
    known["socket"]) is None)
reaches("cores", lambda: open("/proc/sys/kernel/core_pattern", "w"))
def moves(path):
    os.rename(path, path + "2")
    os.rename(path + "2", path)
    return True
here = os.path.dirname(os.path.abspath(__file__))
for path in (here, os.path.dirname(here), os.getcwd(), __file__):
    reaches("folders", lambda: moves(path))
reaches("own file", lambda: open(__file__, "ab"))
reaches("own folder", lambda: os.chmod(here, 0o777) is None)
reaches("descriptors", lambda: [os.stat(n) for n in range(3, 40)])
if kernel.unshare(0x10020000) == 0:  # root in a namespace of its own
    reaches("remount", lambda: kernel.mount(
        None, b"/usr/lib", None, 0x1020, None) == 0)
    reaches("umount", lambda: kernel.umount2(b"/proc", 2) == 0)
tries("opens", lambda: [os.dup(0) for _ in range(5000)])
sys.exit("; ".join([*told, f"reached: {reached}"]))
"""
KEYS = {"x86_64": (248, 250), "aarch64": (217, 219)}  # add_key, keyctl
LIMITED = "huge: File too large; opens: Too many open files; reached: "
DENIED = "reads: {0}.*writes: {0}.*fills: {0}.*connects: {1}.*" + LIMITED
NOTHING = re.escape("[]")
# Another user may read what everybody may, and speak to anybody.
OPEN = re.escape(
    "['copy', 'classmates', 'passwords', 'more', 'programs', 'socket']"
)
DAEMON = """\
import os, signal, socket, sys
if os.fork() == 0:
    os.setsid()
    os.environ.clear()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        for number in range(3):
            os.close(number)
        held = socket.create_server(("127.0.0.1", 0))
        os.set_inheritable(held.fileno(), True)
        os.execve(sys.executable, [
            sys.executable, "-c", "import time; time.sleep(300)",
            known["mark"],
        ], {})
    os._exit(0)
os.wait()
"""
WRITES = """
import time
for number in range(files):
    with open(f"file{number}", "wb") as file:
        file.write(bytes(size))
time.sleep(60)
"""
PRINTS = """\
import sys
while True:
    print("x" * 100_000, end="", file=sys.FILE)
"""
NOWHERE = "(No such file or directory|Read-only file system)"
CAGED = DENIED.format(NOWHERE, "Connection refused") + NOTHING
KILLED = {
    "kills": (KILLS + WENT_ON, "it went on"),
    "forks": (
        KILLS + FORKS + WENT_ON,
        "Resource temporarily unavailable|more than .* (MB|processes)",
    ),
    "leaves a daemon": (DAEMON + WENT_ON, "it went on"),
}
USES: dict[str, tuple[str | bytes, str]] = {
    "many files": (
        "files, size = 200, 1 << 20" + WRITES, "wrote more than 64 MB"
    ),
    "tiny files": ("files, size = 5000, 0" + WRITES, "or 2000 files"),
    "memory": (
        "import mmap, time\n"  # all at once: it has little time
        "flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x8000  # populate\n"
        "found = mmap.mmap(-1, 900 << 20, flags)\n"
        "time.sleep(60)\n", "more than 768 MB of memory",
    ),
    "prints": (PRINTS.replace("FILE", "stdout"), "File too large"),
    "complains": (PRINTS.replace("FILE", "stderr"), "it ended: xxx"),
    "terminal": (
        "raise SystemExit('\\x1b[31mred\\x07')\n", r"\\x1b\[31mred"
    ),
    "nested": ("x = " + "-" * 100_000 + "1\n", "too much is nested"),
    "not UTF-8": (b"x = '\xff'\n", "server.py"),
}
WAYS: dict[str, tuple[str, bool, dict[str, tuple[str | bytes, str]]]] = {
    "bubblewrap": ("bubblewrap", True, {
        **KILLED, "many files": USES["many files"],
        "memory": USES["memory"],
        "spy": (SPY, CAGED),
    }),
    "bubblewrap, not root": ("bubblewrap", False, {
        **KILLED, "spy": (SPY, CAGED),
    }),
    "user": ("user", True, {
        **KILLED,
        "spy": (SPY, DENIED.format("Permission denied", "done") + OPEN),
    }),
    "limits": ("limits", False, {**USES, "spy": (SPY, LIMITED)}),
}


UNCLEAR = ("linked folder", "no file")


def hand_in_files(group: Class) -> dict[str, str]:
    """What is no ordinary file, and what is said of it."""
    other = group.hand_in("honest", SOLUTION)
    group.path("link").symlink_to(other)
    group.path("directory").mkdir()
    os.mkfifo(group.path("pipe"))
    with group.path("large").open("wb") as file:
        file.truncate(100 << 20)
    linked = group.folder / "students" / "linked folder"
    linked.mkdir()
    (linked / "my").symlink_to(other.parent.parent)
    group.path("no file")
    group.hand_in("empty", "")
    return {
        "link": "is a link", "directory": "is not a file",
        "pipe": "is not a file", "large": "larger than 256 KB",
        "linked folder": "not understood: my",
        "no file": "no server.py in it",
        "empty": "is empty",
    }


def still_there(mark: str) -> list[psutil.Process]:
    """Processes with this word in their command line."""
    return processes(lambda p: mark in p.cmdline())


@pytest.mark.thorough
@linux_only
@pytest.mark.parametrize("way", WAYS)
def test_hostile_submissions(
    group: Class, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    name, as_root, attacks = WAYS[way]
    honest, jobs = ["honest"], "1"
    if way == "bubblewrap":  # once beside others, and again alone
        honest, jobs = ["honest", "honest too"], "4"
    if as_root and os.getuid():
        pytest.skip("only root can give a submission a user of its own")
    if name == "bubblewrap" and not shutil.which("bwrap"):
        pytest.skip("bubblewrap is not installed")
    monkeypatch.setenv("A_SECRET", "of the grader")
    wanted = hand_in_files(group)
    for each in honest:
        group.hand_in(each, SOLUTION)
    other = group.path("honest")
    other.parent.chmod(0o700)
    mark = f"daemon-{os.getpid()}-{time.monotonic_ns()}"
    # A name of our own: another way, beside us, may be able to write it.
    hostile = ROOT / "tools" / "learn" / f"hostile_{time.monotonic_ns()}.py"
    copy = group.folder / "solution.py"
    copy.write_text(SOLUTION)
    add_key, keyctl = KEYS.get(os.uname().machine, (-1, -1))
    ctypes.CDLL(None).syscall(add_key, b"user", b"seven", b"x", 1, -3)
    ours, terminal = os.openpty()
    if not as_root and not os.getuid():
        os.fchown(terminal, ORDINARY, ORDINARY)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.socket(socket.AF_UNIX) as local,
        open(ours), open(terminal),
    ):
        local.bind(f"\0{mark}")
        local.listen()
        known = {
            "pid": os.getpid(), "terminal": os.ttyname(terminal),
            "keyctl": keyctl, "copy": str(copy), "socket": f"\0{mark}",
            "folder": str(group.folder / "students"),
            "other": str(other), "hostile": str(hostile), "mark": mark,
            "port": listener.getsockname()[1],
            "uids": [0, os.getuid(), ORDINARY],
            "pids": os.readlink("/proc/self/ns/pid"),
        }
        for kind, (text, sentence) in attacks.items():
            if isinstance(text, str) and "known[" in text:
                text = f"known = {known!r}\n{text}"
            group.hand_in(kind, text)
            wanted[kind] = sentence
        group.interpreter = [sys.executable]
        if not as_root:
            as_ordinary(group)
        try:
            results = group.grade(
                "--protection", name, "--jobs", jobs, status=2
            )
            left = still_there(mark)
        finally:
            for process in still_there(mark):
                process.kill()
    if name == "limits":  # the spy has found this repository open, or not
        hostile.unlink(missing_ok=True)
    assert not left
    assert not hostile.exists()
    assert not list((group.folder / "tmp").iterdir())
    assert "\x1b" not in group.said
    for each in honest:
        assert results.pop(each)["state"] == "passed", each
    unlike = {
        name: text_of(result)[:500] for name, result in results.items()
        if result["state"] != ("unclear" if name in UNCLEAR else "failed")
        or not re.search(wanted[name], text_of(result))
    }
    assert not unlike
    assert set(results) == set(wanted)


# What a submission may leave behind for our rights. It runs in one folder,
# its file may be in another; the one test that changes clients.py, and
# reads notes, gives it --piece.
LEAVES = """\
import contextlib, os, sys
import clients
here = os.path.dirname(os.path.abspath(__file__))
clients.note = lambda what: None
swaps = "--piece" in sys.argv
for path in {f"{folder}/{left}" for folder in (here, os.getcwd())}:
    with contextlib.suppress(OSError):
        os.chmod(os.path.dirname(path), 0o777)
    with contextlib.suppress(OSError):
        leave(path)
if not swaps:
    sys.exit("it went on")
"""
SWAPS = """\
left = "clients.py"
def leave(path):
    text = open(path).read()
    os.unlink(path)
    if swaps:  # what has been read goes where the link leads
        os.symlink(ours, path)
    else:
        open(path, "w").write("# changed\\n" + text)
"""
LINKS = 'left, leave = "notes", lambda path: os.symlink(ours, path)\n'
PIPES = 'left, leave = "notes", lambda path: os.mkfifo(path)\n'
LEFT = {"swaps": (SWAPS, ""), "links": (LINKS, "it is a link"),
        "pipes": (PIPES, "it is no ordinary file")}


@linux_only
@pytest.mark.parametrize("kind", LEFT)
@pytest.mark.parametrize("name", [
    pytest.param("bubblewrap", marks=pytest.mark.skipif(
        not shutil.which("bwrap"), reason="bubblewrap is not installed"
    )),
    pytest.param("user", marks=root_only),
])  # fmt: skip
def test_what_a_submission_leaves_does_no_harm(
    group: Class, name: str, kind: str
) -> None:
    ours, secret = group.folder / "ours", "secret-of-the-grader"
    ours.write_text(secret)
    ours.chmod(0o600)
    attack, said = LEFT[kind]
    solution = exercises.by_id("04.1").solution.read_text()
    text = f"ours = {str(ours)!r}\n{attack}{LEAVES}{solution}"
    group.hand_in("hostile", text, "04.1")
    found = group.grade("--protection", name, "--seconds", "40")["hostile"]
    assert ours.read_text() == secret
    assert secret not in text_of(found)
    assert not found["trouble"] and len(found["outcomes"]) == 6  # in time
    assert "The test itself failed" not in text_of(found)
    assert said in text_of(found)


def test_what_waits_for_ever_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "server.py"
    path.write_text("import time\ntime.sleep(600)\n")
    report = examine(FIRST, path, longest=1)
    assert report.trouble.startswith("the tests were ended after 1 s")


@pytest.mark.thorough
def test_a_file_that_keeps_the_compiler_busy(tmp_path: Path) -> None:
    # It would keep ours busy for hours: each level takes twice as long.
    lines = ["def f():"]
    lines += [" " * n + "try:" for n in range(1, 20)] + [" " * 20 + "return"]
    for n in range(19, 0, -1):
        lines += [" " * n + "finally:", " " * n + " return"]
    path = tmp_path / "server.py"
    path.write_text("\n".join(lines))
    assert "server.py cannot be read" in check_source(path, "server.py")


def test_what_fails_beside_others_is_graded_again_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    together = threading.Barrier(2)
    running = threading.Lock()
    seen: list[tuple[str, bool]] = []

    def result(self: object, student: Student, exercise: Exercise) -> Result:
        """The first time it starves, as its neighbour takes everything."""
        if alone := running.acquire(blocking=False):
            if student.name not in dict(seen):
                together.wait(60)
            running.release()
        else:
            together.wait(60)
        seen.append((student.name, alone))
        fails = len(seen) <= 2 or student.name == "bad"
        return Result("failed" if fails else "passed", Report(exercise.id))

    monkeypatch.setattr(grade.Grader, "result", result)
    students = [Student(name, tmp_path) for name in ("good", "bad")]
    grading = reports.Grading([FIRST], students, 1)
    limits = Protection("limits", sys.executable)
    grade.Grader(grading, limits, tmp_path, 9).run(2)
    assert [s.results["02.1"].state for s in students] == ["passed", "failed"]
    assert seen[2:] == [("good", True), ("bad", True)]


def test_what_cannot_be_counted_is_seen_on_the_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    watched = Watched(0, tmp_path)
    watched.check([])
    assert not watched.reason
    monkeypatch.setattr(watcher, "LEFT", 1 << 60)
    watched.check([])
    assert "short of memory" in watched.reason


@root_only
@linux_only
def test_shared_memory_of_a_user_is_cleared() -> None:
    uid = protection.a_user()
    code = (
        "import ctypes\n"
        "print(ctypes.CDLL(None).shmget(0, 4096, 0o1600))\n"
    )
    made = subprocess.run(
        ["/usr/bin/python3", "-ISc", code], user=uid, group=uid,
        extra_groups=[], capture_output=True, text=True, check=True,
    ).stdout.strip()
    segments = Path("/proc/sysvipc/shm")
    assert made in segments.read_text().split()
    protection.clear_user(uid)
    assert made not in segments.read_text().split()


@root_only
def test_users_are_cleared() -> None:
    # A user's processes go, and nobody else's.
    one, another = protection.a_user(), protection.a_user()
    mine, other = (
        subprocess.Popen(
            ["/bin/sleep", "60"], user=uid, group=uid, extra_groups=[]
        )
        for uid in (one, another)
    )
    try:
        protection.clear_user(one)
        assert mine.wait(60) == -signal.SIGKILL
        assert other.poll() is None
    finally:
        for process in (mine, other):
            process.kill()
            process.wait()


@root_only
def test_a_repository_that_only_root_may_enter(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protection, "ROOT", tmp_path)  # as if it were hidden
    with protection.work_folder() as work:
        assert protection.choose("user", work).name == "user"


def test_never_root() -> None:
    for uid in (0, -1):
        with pytest.raises(PermissionError):
            protection.clear_user(uid)


@linux_only
def test_a_cage_that_cannot_be_closed(tmp_path: Path) -> None:
    # Rather no program than one without its protection.
    for name in ("bubblewrap",) * bool(shutil.which("bwrap")) + ("user",):
        nowhere = Place(tmp_path / "missing", 30_000)
        words = Protection(name, sys.executable).python(nowhere)
        done = subprocess.run(
            [*words, "-c", "print('runs')"],
            capture_output=True, text=True, check=False,
        )
        assert "runs" not in done.stdout and done.returncode


def test_what_protects_is_said(
    group: Class, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    weaker = "limits" if os.getuid() else "user"
    best = protection.choose(None, group.folder)
    said = capsys.readouterr().err
    assert protection.PROTECTIONS[best.name] in said
    # bwrap is there, but must not make namespaces.
    monkeypatch.setattr(shutil, "which", lambda *_, **__: "/bin/x")
    monkeypatch.setattr(
        Protection, "works", lambda self, _: self.name == weaker
    )
    assert protection.choose(None, group.folder).name == weaker
    said = capsys.readouterr().err
    assert protection.PROTECTIONS[weaker] in said
    assert "bwrap cannot make namespaces here" in said
    monkeypatch.setattr(shutil, "which", lambda *_, **__: None)
    assert protection.choose(None, group.folder).name == weaker
    assert "is not installed" in capsys.readouterr().err


def test_interrupted(group: Class) -> None:
    group.hand_in("anna", "while True:\n    pass\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.learn", "grade", "students/anna"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )
    try:
        # The submission runs as soon as its file is there.
        assert eventually(
            lambda: list(group.folder.glob("tmp/*/*/read/*/server.py")), 60
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
    finally:
        process.kill()
        process.communicate()
    assert not list((group.folder / "tmp").iterdir())


def test_what_begins_during_an_interruption_is_ended(
    tmp_path: Path,
) -> None:
    watched = Watched(0, tmp_path)
    with Watcher() as watching:
        watching.stopping = True
        with watching.watching(watched):
            process = subprocess.Popen(
                [sys.executable, "-c", "import time; time.sleep(60)"],
                env={**os.environ, MARK: watched.around.mark},
            )
            try:
                assert process.wait(60) == -signal.SIGKILL
            finally:
                process.kill()
                process.wait()


def test_the_page_names_the_limits() -> None:
    text = (ROOT / "docs" / "teach" / "grading.md").read_text()
    limits = protection.LIMITS
    for said in (
        f"| {LONGEST:g} s, or `--seconds` |",
        f"| {limits.seconds} s |",
        f"| {limits.resident // protection.MEGA} MB |",
        f"| {limits.processes} |",
        f"| {limits.descriptors} |",
        f"| {limits.file // protection.MEGA} MB |",
        f"| {limits.disk // protection.MEGA} MB, {limits.files} files |",
        f"| {handed_in.SOURCE_BYTES // 1024} KB |",
        f"less than {watcher.LEFT // protection.MEGA} MB",
        *(f"| `{name}` |" for name in formats.FORMATS),
        *(f"| `{name}` " for name in protection.PROTECTIONS),
    ):
        assert said in text, said
