"""./learn.sh grade: honest work is graded, hostile work harms nobody."""

import calendar
import contextlib
import csv
import ctypes
import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import psutil
import pytest
import yaml  # type: ignore[import-untyped]

from tests.marks import Patch, Said
from tools.common.launch import eventually
from tools.learn import cage, exercises, grade, handed_in, student
from tools.learn.__main__ import main, read_words
from tools.learn.examine import (
    LONGEST,
    Report,
    examine,
    processes,
    read_outcomes,
)
from tools.servers import ROOT

FIRST = exercises.by_id("02.1")
SOLUTION = FIRST.solution.read_text()
STARTER = FIRST.starter.read_text()
ORDINARY = 23_456  # a user who is not root, for gradings by such a one

caged = pytest.mark.skipif(
    not shutil.which("bwrap"), reason="bubblewrap is not installed"
)


class Class:
    """Students' folders, and the grading of them."""

    def __init__(self, folder: Path, capture: Said) -> None:
        self.folder = folder
        self.students = folder / "students"
        self.capture = capture
        self.json = folder / "graded.json"
        self.interpreter: list[str] = []  # to run it in another process
        self.said = ""
        # Most tests are about honest files, on any machine.
        self.how = ["--unprotected"]

    def path(self, name: str, exercise: str = "02.1") -> Path:
        """Where this student's file belongs."""
        folder = self.students / name / "my" / exercise
        folder.mkdir(parents=True, exist_ok=True)
        return folder / exercises.by_id(exercise).file

    def hand_in(
        self, name: str, text: str | bytes, exercise: str = "02.1"
    ) -> None:
        data = text.encode() if isinstance(text, str) else text
        self.path(name, exercise).write_bytes(data)

    def run(self, *words: str, status: int = 0) -> str:
        """./learn.sh grade with these words; what it said."""
        words = (*self.how, *words)
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
        folders = [f"students/{n}" for n in sorted(os.listdir(self.students))]
        self.run(*folders, "--json", self.json.name, *words, status=status)
        found = json.loads(self.json.read_text())
        return {s["name"]: s["results"][0] for s in found["students"]}


@pytest.fixture
def group(monkeypatch: Patch, capsys: Said) -> Iterator[Class]:
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


def test_the_table(group: Class) -> None:
    missing = f"no_such_module_{'x' * 60}"
    group.hand_in("anna", SOLUTION)
    group.hand_in("=ben", STARTER)
    group.hand_in("dora", f"import {missing}\n")
    (group.students / "cleo").mkdir()
    results = group.grade(
        "--csv", "all.csv", "--junit", "all.xml", "--jobs", "1"
    )
    suites = ElementTree.parse(group.folder / "all.xml").getroot()
    assert [(suite.get("name"), suite.get("failures"), suite.get("errors"))
            for suite in suites] == [
        ("=ben: 02.1 A request in two pieces", "3", "0"),
        ("anna: 02.1 A request in two pieces", "0", "0"),
        ("cleo: 02.1 A request in two pieces", "0", "1"),
        ("dora: 02.1 A request in two pieces", "5", "0"),
    ]
    rows = csv.DictReader((group.folder / "all.csv").open())
    assert [
        (r["student"], r["exercises_passed"], r["tests_passed"], r["tests"],
         r["02.1"]) for r in rows
    ] == [
        ("'=ben", "0", "2", "5", "failed"),
        ("anna", "1", "5", "5", "passed"),
        ("cleo", "0", "0", "5", "missing"),
        ("dora", "0", "0", "5", "failed"),
    ]
    for said in (
        "02.1 (2 of 5 tests)", "02.1 (not handed in)",
        "02.1 (0 of 5 tests: it ended: ModuleNotFoundError: ",
        "[4/4] dora 02.1: failed",
    ):
        assert said in group.said
    assert missing not in group.said  # in short
    # Once more, with the seed that was noted.
    seed = json.loads(group.json.read_text())["seed"]
    for name in ("anna", "cleo", "dora"):
        shutil.rmtree(group.students / name)
    again = group.grade("--seed", str(seed), "--must-pass", status=1)
    assert text_of(again["=ben"]) == text_of(results["=ben"])


@pytest.mark.parametrize(("words", "sentence"), [
    ("students/anna students/nobody", "there is no folder students/nobody"),
    ("students/anna students/nobody", "anna 02.1: failed"),
    ("students", "Did you mean"),
    ("nowhere", "nobody to grade"),
    ("students/anna --csv nowhere/a", "cannot write nowhere/a: there is no"),
    ("students/anna --csv students", "cannot write students: "),
])
def test_what_cannot_be_graded(
    group: Class, words: str, sentence: str
) -> None:
    for name in ("anna", "ben"):
        group.hand_in(name, "")
    assert sentence in group.run(*words.split(), status=2)


FILE = "assignsubmission_file_"
LAYOUTS = {
    "as in my": ["anna/02.1/server.py", "ben/my/02.1/server.py"],
    "without a zero": ["anna/2.1/server.py", "ben/my/2.1/server.py"],
    "a zip's folder": [
        "anna/homework-1/02.1/server.py", "ben/ben/hand in/my/02.1/server.py"
    ],
    "beside others": ["anna/02.1/server.py", "ben/02.1/server.py",
                      "anna/__MACOSX/02.1/server.py", "ben/.git/02.1.py"],
    "begun again": ["anna/02.1/server.py", "anna/02.1/before-1/server.py",
                    "ben/02.1/server.py"],
    "for a neighbour": ["anna/ben_8_101_02.1.py", "ben/02.1/server.py"],
    "for Moodle's": [
        f"anna_7_{FILE}/ben_8_{FILE}2.1.py", f"ben_8_{FILE}/2.1/server.py",
    ],
    "Moodle's folders": [
        f"anna_7_{FILE}/2.1/server.py", f"ben_8_{FILE}/my/02.1/server.py",
    ],
    "Moodle's files": [f"anna_7_{FILE}02.1 server.py", f"ben_8_{FILE}2.1.py"],
    "Canvas's files": [
        "anna_7_100_02.1.py", "ben_LATE_8_101_2.1-server-1.py",
    ],
    "Canvas's archives": [
        "anna_7_100_my/02.1/server.py", "ben_LATE_8_101_h w/2.1/server.py",
    ],
    "a name that can only be one": [
        f"anna_7_{FILE}server.py", "ben_8_9_server-2.py",
    ],
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_as_they_arrive(tmp_path: Path, layout: str) -> None:
    """Each student's file is found, and is nobody else's."""
    for path in LAYOUTS[layout]:
        file = tmp_path / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(path)
    wanted = [FIRST] if "only" in layout else []
    flat = any(path.is_file() for path in tmp_path.iterdir())
    folders = [tmp_path] if flat else sorted(tmp_path.iterdir())
    students, wrong = handed_in.find_students(folders, wanted)
    assert not wrong and [s.name for s in students] == ["anna", "ben"]
    numbers = ["7", "8"] if "_7_" in LAYOUTS[layout][0] else ["", ""]
    assert [s.number for s in students] == numbers
    for each in students:
        found = handed_in.take(each, FIRST).decode()
        assert found.startswith(each.name) and "before" not in found
        assert not each.question([FIRST])


def test_equal_names_are_told_apart(tmp_path: Path) -> None:
    folders = [tmp_path / day / "anna" for day in ("monday", "friday")]
    for folder in folders:
        folder.mkdir(parents=True)
    students, _ = handed_in.find_students(folders, [])
    assert [s.name[-11:] for s in students] == ["monday-anna", "friday-anna"]


def test_what_is_not_understood_is_named(group: Class) -> None:
    group.hand_in("anna", "")
    for name in ("ben/hw.zip", "cleo/server.py", "dora/02.1/mine.py",
                 "emil/02.1/server.py", "emil/old/02.1/server.py"):
        path = group.students / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (group.students / "frieda").symlink_to(group.students / "anna")
    (group.students / "gina").mkdir()
    (group.students / "hugo").mkdir()
    (group.students / "hugo" / "my").symlink_to("../anna/my")
    results = group.grade(status=2)
    assert {name: r["state"] for name, r in results.items()} == {
        "anna": "failed", "ben": "unclear", "cleo": "unclear",
        "dora": "unclear", "emil": "unclear", "gina": "missing",
        "hugo": "unclear",
    }
    for said in (
        "ben: not understood: hw.zip", "cleo: not understood: server.py",
        "dora: not understood: 02.1 (no server.py in it)",
        "emil: not understood: 02.1, old/02.1", "hugo: not understood: my",
        "students/frieda is a link: name the folder itself",
        "nothing found in",
    ):
        assert said in group.said, said


def test_what_is_no_program_is_not_run(group: Class) -> None:
    for name, data in (
        ("anna/02.1.zip", b"PK\3\4"), ("ben/02.1.ipynb", b"{}"),
        ("cleo/02.1/server.py", b"PK\3\4" + bytes(100)),
        ("dora/02.1/server.py", b'{\n "cells": [],\n "nbformat": 4\n}'),
        ("emil/02.1.pdf", b"%PDF"), ("emil/02.1.py", b"import helper\n"),
        ("emil/helper.py", b""),
    ):
        path = group.students / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    results = group.grade("--csv", "all.csv", status=2)
    assert {name: r["state"] for name, r in results.items()} == {
        "anna": "unclear", "ben": "unclear", "cleo": "unclear",
        "dora": "unclear", "emil": "failed",
    }
    for said in ("anna: not understood: 02.1.zip",
                 "cleo: not understood: 02.1/server.py is an archive",
                 "dora: not understood: 02.1/server.py is a notebook"):
        assert said in group.said, said
    assert "only the file itself is graded" in text_of(results["emil"])
    rows = csv.DictReader((group.folder / "all.csv").open())
    assert [row["minutes_passed"] for row in rows] == ["", "", "", "", "0"]


def test_what_to_look_at(group: Class) -> None:
    group.hand_in("anna", SOLUTION)
    group.hand_in("ben", "import base64, os\nexec(base64.b64decode(''))\n")
    group.hand_in("cleo", STARTER)
    looks = {n: r["look"] for n, r in group.grade().items()}
    assert looks == {
        "anna": ["the same as a solution"], "ben": ["base64", "exec"],
        "cleo": [],
    }
    assert "02.1: base64 exec" in group.said


def test_resume_grades_what_may_change(
    group: Class, monkeypatch: Patch
) -> None:
    group.hand_in("anna", SOLUTION)
    group.hand_in("ben", STARTER)
    group.hand_in("cleo", "x = (\n")
    graded: list[str] = []

    def counted(*words: Any, **more: Any) -> Report:
        graded.append(Path(words[1]).read_text())
        return examine(*words, **more)

    monkeypatch.setattr(grade, "examine", counted)
    first = group.grade("--resume")
    assert {*graded} == {SOLUTION, STARTER, "x = (\n"}
    seed = json.loads(group.json.read_text())["seed"]
    graded.clear()
    again = group.grade("--resume")
    assert graded == [STARTER]
    assert json.loads(group.json.read_text())["seed"] == seed
    assert again["anna"] == first["anna"] and again["cleo"] == first["cleo"]
    group.hand_in("anna", SOLUTION + "# another\n")
    graded.clear()
    group.grade("--resume")
    assert {*graded} == {SOLUTION + "# another\n", STARTER}
    group.json.write_text("[]")
    said = group.run("students/anna", "--json", "graded.json", "--resume",
                     status=2)
    assert "graded.json is no result of a grading" in said


def test_what_was_graded_is_kept(group: Class, monkeypatch: Patch) -> None:
    for name in ("anna", "ben"):
        group.hand_in(name, SOLUTION if name == "anna" else STARTER)

    def interrupted(*words: Any, **more: Any) -> Report:
        if Path(words[1]).read_text() == STARTER:
            raise KeyboardInterrupt
        return examine(*words, **more)

    monkeypatch.setattr(grade, "examine", interrupted)
    group.run("students/anna", "students/ben", "--json", "graded.json",
              "--jobs", "1", status=130)
    found = json.loads(group.json.read_text())["students"]
    assert [s["results"][0]["state"] for s in found] == ["passed", "unclear"]


def test_results_are_read_as_data(tmp_path: Path) -> None:
    good = {"name": "a", "title": "t", "passed": True, "seconds": 1}
    lines = [["a", "b"], good, good | {"name": "c"}, good | {"passed": 1},
             {"name": "b"}, [], "x", 7,
             *(good | {"name": "b", "seconds": s} for s in ("x", 1e999))]
    file = tmp_path / "outcomes"
    text = "\n".join(map(json.dumps, lines)) + "\n\xff{\n" + "[" * 100_000
    file.write_bytes(text.encode("latin-1") + b" " * (2 << 20))
    report = Report("02.1", "")
    with file.open() as opened:
        read_outcomes(report, opened.fileno())
    assert report.total == 2
    assert [(o.name, o.passed) for o in report.outcomes] == [("a", False)]


# Hostile submissions -------------------------------------------------------

# What an attack has to know stands above it, as a dictionary.
# Nothing that kills is done before it is certain that it cannot reach us.
KILLS = """\
import os, signal, sys, time
if os.readlink("/proc/self/ns/pid") == known["pids"]:
    sys.exit("not safe to try")
signal.signal(signal.SIGTERM, signal.SIG_IGN)
for pid, number in ((-1, 9), (os.getppid(), 9), (0, signal.SIGTERM)):
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        pass
time.sleep(0.5)  # whoever waits for its end has noticed it, if it came
"""
WENT_ON = "sys.exit('it ' + 'went on')\n"
FORKS = """\
for _ in range(900):
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
"""
# What a submission tries: an expression that has to fail, or to be false.
TRIES = {
    "a neighbour's file": "open(known['other'])",
    "the neighbours": "os.listdir(known['folder'])",
    "a copy of the solution": "open(known['copy'])",
    "our code": "write(known['hostile'], 1)",
    "devices": "write('/dev/hostile', 1)",
    "a file without end": "write('huge', 100)",
    "our ports": "socket.create_connection(('127.0.0.1', known['port']))",
    "our sockets": "socket.socket(socket.AF_UNIX).connect(known['socket']) "
    "is None",
    "own environment": "'SECRET' in str(os.environ)",
    **{f"environment of {pid}": f"holds({pid})"
       for pid in ("1", "os.getppid()", "known['pid']")},
    "memory": "open(f'/proc/{known[\"pid\"]}/mem', 'rb')",
    "grader": "os.kill(known['pid'], 0) is None",
    "its words": "any(b'--seed' in words(pid) for pid in os.listdir('/proc') "
    "if pid.isdigit())",
    "the first process": "kernel.ptrace(16, 1, 0, 0) == 0",
    "its memory": "open('/proc/1/mem', 'r+b')",
    "its root": "os.listdir('/proc/1/root')",
    "the network": "socket.create_connection(('192.0.2.1', 80), 5)",
    "other networks": "{name for _, name in socket.if_nameindex()} - {'lo'}",
    "mounts": "kernel.mount(b'none', b'/tmp', b'tmpfs', 0, None) == 0",
    "loops": "os.mknod('loop', 0o60600, os.makedev(7, 0)) is None",
    "other processes": "{p for p in os.listdir('/proc') if p.isdigit()} - "
    "{'1', str(os.getpid())}",
    "the terminal's input": "fcntl.ioctl(0, termios.TIOCSTI, b'x') == b'x'",
    "more limits": "resource.setrlimit(resource.RLIMIT_NPROC, (9999, 9999)) "
    "is None",
    "the clock": "time.clock_settime(time.CLOCK_REALTIME, time.time())",
    "the name": "socket.sethostname('hostile') is None",
    "terminal": "os.open(known['terminal'], os.O_RDWR)",
    "tty": "os.open('/dev/tty', os.O_RDWR)",
    "keys": "kernel.syscall(known['keyctl'], 10, -3, b'user', b'seven', 0) "
    "> 0",
    "passwords": "open('/etc/passwd')",
    "programs": "open('/usr/bin/env')",
    "more": "{*os.listdir('/usr')} - {'lib', 'lib32', 'lib64', 'share', "
    "'bin'}",
    "library": "open(os.__file__, 'ab')",
    "python": "open(os.path.realpath(sys.executable), 'ab')",
    "cores": "open('/proc/sys/kernel/core_pattern', 'w')",
    "results": "{*os.listdir(here + '/../..')} - {'read', 'place'}",
    **{f"moves {path}": f"moves({path})" for path in (
        "here", "os.path.dirname(here)", "os.getcwd()", "__file__")},
    "own file": "open(__file__, 'ab')",
    "own folder": "os.chmod(here, 0o777) is None",
    "our descriptors": "len(os.listdir('/proc/self/fd')) > 4",
    # As root in a namespace of its own.
    "remount": "kernel.unshare(0x10020000) == 0 and kernel.mount("
    "None, b'/usr/lib', None, 0x1020, None) == 0",
    "umount": "kernel.umount2(b'/proc', 2) == 0",
    "many descriptors": "[os.dup(0) for _ in range(5000)]",
}
SPY = f"tries = {TRIES!r}" + """
import ctypes, fcntl, os, resource, socket, sys, termios, time
kernel = ctypes.CDLL(None)
here = os.path.dirname(os.path.abspath(__file__))
def write(path, size):
    with open(path, "wb") as file:
        for _ in range(size):
            file.write(bytes(1 << 20))
    return True
def holds(pid):
    with open(f"/proc/{pid}/environ", "rb") as file:
        return b"SECRET" in file.read()
def words(pid):
    with open(f"/proc/{pid}/cmdline", "rb") as file:
        return file.read()
def moves(path):
    os.rename(path, path + "2")
    os.rename(path + "2", path)
    return True
reached = []
for name, what in {"itself": "open(__file__)", **tries}.items():
    try:
        if eval(what):
            reached.append(name)
    except (OSError, ValueError):
        pass
sys.exit(f"reached: {reached}")
"""
KEYS = {"x86_64": (248, 250), "aarch64": (217, 219)}  # add_key, keyctl
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
# Configuration for pytest and Python, wherever it might be read.
CONFIGURES = """\
import contextlib, os, sys
passes = "import os, sys\\nos._exit(0)\\n"
here = os.path.dirname(os.path.abspath(__file__))
for folder in (here, here + "/..", os.getcwd(), os.environ["HOME"], "/tmp",
               "/", "/tmp/place", *sys.path):
    for name, text in (
        ("conftest.py", passes), ("sitecustomize.py", passes),
        ("usercustomize.py", passes), ("x.pth", "import os; os._exit(0)"),
        ("pytest.ini", "[pytest]\\naddopts = --collect-only\\n"),
        ("pyproject.toml", "[tool.pytest.ini_options]\\naddopts = '-h'\\n"),
        ("test_x.py", passes), ("psutil.py", passes), ("web.py", passes),
    ):
        with contextlib.suppress(OSError):
            open(f"{folder}/{name}", "w").write(text)
"""
# What our tests write if a submission passes.
CLAIMS = """\
import json, os
names = NAMES
lines = [names, *({"name": name, "title": "x", "passed": True, "seconds": 0}
                  for name in names)]
text = "".join(json.dumps(line) + "\\n" for line in lines).encode()
for number in range(1, 256):
    try:
        os.write(number, text)
    except OSError:
        pass
os._exit(0)
""".replace("NAMES", repr(re.findall(r"^def (test_\w+)", FIRST.tests.read_text(
    "utf-8"), re.M)))
READY = "print('Serving on http://127.0.0.1:%d/ (Ctrl-C to stop)' % {port}, " \
    "flush=True)\n"
BUSY = "\n".join([
    "def f():", *(" " * n + "try:" for n in range(1, 20)),
    " " * 20 + "return",
    *(" " * n + "finally:\n" + " " * n + " return" for n in range(19, 0, -1)),
])
PRINTS = """\
import sys
while True:
    print("x" * 100_000, end="", file=sys.FILE)
"""


def link_folder(folder: Path) -> None:
    """This folder is the one of an honest neighbour."""
    folder.rmdir()
    folder.symlink_to("../../honest/my/02.1")


def listen_at(path: Path) -> None:
    """A socket."""
    with socket.socket(socket.AF_UNIX) as made, contextlib.chdir(path.parent):
        made.bind(path.name)


def make_device(path: Path) -> None:
    """A device that gives zeros for ever, or, without rights, a pipe."""
    if os.getuid():
        os.mkfifo(path)
    else:
        os.mknod(path, 0o20666, os.makedev(1, 5))


# What is handed in, as text or by what makes it; what is said of it.
ATTACKS: dict[str, tuple[str | bytes | Callable[[Path], object], str]] = {
    "link": (lambda path: path.symlink_to("../../../honest/my/02.1/server.py"),
             "is a link"),
    "linked folder": (lambda path: link_folder(path.parent), "is a link"),
    "directory": (Path.mkdir, "server.py: it .*"),
    "pipe": (os.mkfifo, "server.py: it is no ordinary file"),
    "socket": (listen_at, "server.py: it cannot be opened"),
    "device": (make_device, "server.py: it is no ordinary file"),
    "configures": (CONFIGURES + WENT_ON, "it went on"),
    "claims": (CLAIMS, "a server that starts"),
    "counts its starts": (
        "import os, sys\nbefore = os.path.exists('count')\n"
        "open('count', 'w').close()\nsys.exit(f'there before: {before}')\n",
        "(?s)^(?!.*before: True).*before: False",
    ),
    "names our port": (
        READY.format(port="known['port']") + "import time; time.sleep(600)\n",
        "it named port .* and does not listen",
    ),
    "large": (b" " * (100 << 20), "larger than 256 KB"),
    "empty": ("", "it ended: it said nothing"),
    "spy": (SPY, r"reached: \['itself'\]"),
    "kills": (KILLS + WENT_ON, "it went on"),
    "forks": (
        KILLS + FORKS + WENT_ON,
        "Resource temporarily unavailable|more than .* (MB|processes)",
    ),
    "leaves a daemon": (DAEMON + WENT_ON, "it went on"),
    "many files": (
        "for n in range(200): open(f'file{n}', 'wb').write(bytes(1 << 20))\n"
        + "raise SystemExit('went on')", "No space left on device"
    ),
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
    "nested": ("x = " + "-" * 100_000 + "1\n", "(Memory|Recursion)Error"),
    "not UTF-8": (b"x = '\xff'\n", "SyntaxError: "),
    # It would keep ours busy for hours: each level takes twice as long.
    "busy compiler": (BUSY, "kept the CPU busy|more than .* MB"),
}


def still_there(mark: str) -> list[psutil.Process]:
    """Processes with this word in their command line."""
    return processes(lambda p: mark in p.cmdline())


@contextlib.contextmanager
def known_to(
    group: Class, mark: str, owner: int = -1
) -> Iterator[dict[str, Any]]:
    """What an attack has to know of us; all of it is there to be found."""
    copy = group.folder / "solution.py"
    copy.write_text(SOLUTION)
    add_key, keyctl = KEYS.get(os.uname().machine, (-1, -1))
    ctypes.CDLL(None).syscall(add_key, b"user", b"seven", b"x", 1, -3)
    ours, terminal = os.openpty()
    os.fchown(terminal, owner, owner)
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.socket(socket.AF_UNIX) as local,
        open(ours), open(terminal),
    ):
        local.bind(f"\0{mark}")
        local.listen()
        yield {
            "pid": os.getpid(), "terminal": os.ttyname(terminal),
            "keyctl": keyctl, "copy": str(copy), "socket": f"\0{mark}",
            "folder": str(group.students), "mark": mark,
            "other": str(group.path("honest")),
            "hostile": str(ROOT / "tools" / "hostile"),
            "port": listener.getsockname()[1],
            "pids": os.readlink("/proc/self/ns/pid"),
        }


@pytest.mark.thorough
@caged
@pytest.mark.parametrize("as_root", [False, pytest.param(
    True, marks=pytest.mark.skipif(os.getuid() != 0, reason="not root")
)])
def test_hostile_submissions(
    group: Class, monkeypatch: Patch, as_root: bool
) -> None:
    monkeypatch.setenv("A_SECRET", "of the grader")
    for name in ("honest", "honest too"):
        group.hand_in(name, SOLUTION)
    mark = f"daemon-{os.getpid()}-{time.monotonic_ns()}"
    hostile = ROOT / "tools" / "learn" / f"hostile_{time.monotonic_ns()}.py"
    owner = -1
    if not as_root and not os.getuid():
        owner = ORDINARY
    with known_to(group, mark, owner) as known:
        known["hostile"] = str(hostile)
        for kind, (attack, _) in ATTACKS.items():
            if callable(attack):
                attack(group.path(kind))
            elif isinstance(attack, str) and "known[" in attack:
                group.hand_in(kind, f"known = {known!r}\n{attack}")
            else:
                group.hand_in(kind, attack)
        group.interpreter, group.how = [sys.executable], []
        if not as_root:
            as_ordinary(group)
        try:
            results = group.grade("--jobs", "3")
            left = still_there(mark)
        finally:
            for process in still_there(mark):
                process.kill()
    assert not left
    assert not hostile.exists()
    assert not list((group.folder / "tmp").iterdir())
    assert "\x1b" not in group.said
    for name in ("honest", "honest too"):
        assert results.pop(name)["state"] == "passed", name
    unlike = {
        name: text_of(result)[:500] for name, result in results.items()
        if result["state"] != "failed"
        or not re.search(ATTACKS[name][1], text_of(result))
    }
    assert not unlike
    assert {*results} == {*ATTACKS}


# Whoever gets out of the inner cage is where the tests are.
OUTSIDE = {
    name: TRIES[name] for name in (
        "a neighbour's file", "the neighbours", "a copy of the solution",
        "our code", "devices", "our ports", "our sockets", "keys",
        "own environment", "environment of 1", "grader", "terminal", "tty",
        "passwords", "programs", "library", "python", "cores", "own file",
        "the network", "other networks", "loops", "umount", "the clock",
        "our descriptors",
    )
} | {
    "our secret": "open(known['secret'])",
    "our data": "open(known['data'], 'ab')",
    "a place for more": "write('/hostile', 1)",
    "a server": "open(known['server'], 'ab')",
    "history": "os.listdir(known['history'])",
    "remount": "kernel.mount(None, b'/usr/lib', None, 0x1020, None) == 0",
    "groups": "os.setgroups([0]) is None and open(known['secret'])",
    "a disk": "os.mknod('/tmp/disk', 0o60600, os.makedev(8, 0)) is None",
    "all the memory": "[write(f'/tmp/{n}', 15) for n in range(20)]",
    "a large file": "write('/tmp/large', 17)",
}
AROUND = """\
import subprocess, sys
from pathlib import Path
from tools.learn import cage
subprocess.run([*cage.around(Path(sys.argv[1])), str(cage.GIVEN)],
               env=cage.environment())
"""


@caged
@pytest.mark.thorough
@pytest.mark.parametrize("as_root", [False, pytest.param(
    True, marks=pytest.mark.skipif(os.getuid() != 0, reason="not root")
)])
def test_out_of_the_inner_cage(
    group: Class, monkeypatch: Patch, as_root: bool
) -> None:
    """Who is where the tests are changes nothing else of ours."""
    monkeypatch.setenv("A_SECRET", "of the grader")
    group.hand_in("honest", SOLUTION)
    given, secret = group.folder / "given", group.folder / "secret"
    group.interpreter = [sys.executable]
    if not as_root:
        as_ordinary(group)
    mark = f"outside-{os.getpid()}-{time.monotonic_ns()}"
    secret.write_text("ours")
    with known_to(group, mark) as known:
        known |= {
            "secret": str(secret), "server": str(FIRST.starter),
            "data": str(ROOT / "docs" / "data" / "conformance.json"),
            "history": str(ROOT / ".git"),
        }
        spy = SPY.replace(repr(TRIES), repr(OUTSIDE))
        given.write_text(f"known = {known!r}\n{spy}")
        if not as_root and not os.getuid():
            os.chown(given, ORDINARY, ORDINARY)
        done = subprocess.run(
            [*group.interpreter, "-c", AROUND, str(given)], cwd=ROOT,
            capture_output=True, text=True, check=False, timeout=120,
        )
    assert done.stderr == "reached: ['itself']\n"


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


@caged
@pytest.mark.thorough
@pytest.mark.parametrize("kind", LEFT)
def test_what_a_submission_leaves_does_no_harm(
    group: Class, kind: str
) -> None:
    ours, secret = group.folder / "ours", "secret-of-the-grader"
    ours.write_text(secret)
    ours.chmod(0o600)
    attack, said = LEFT[kind]
    exercise = exercises.by_id("04.1")
    solution = exercise.solution.read_text()
    tests = exercise.tests.read_text().count("\ndef test_")
    text = f"ours = {str(ours)!r}\n{attack}{LEAVES}{solution}"
    group.hand_in("hostile", text, "04.1")
    group.how = []
    found = group.grade("--seconds", "40")["hostile"]
    assert ours.read_text() == secret
    assert secret not in text_of(found)
    assert not found["trouble"] and len(found["outcomes"]) == tests
    assert "The test itself failed" not in text_of(found)
    assert said in text_of(found)


def test_what_waits_for_ever_is_ended(tmp_path: Path) -> None:
    path = tmp_path / "server.py"
    path.write_text("import time\ntime.sleep(600)\n")
    report = examine(FIRST, path, longest=1)
    assert report.trouble.startswith("the tests were ended after 1 s")


@caged
def test_a_cage_that_cannot_be_closed(tmp_path: Path) -> None:
    # Rather no program than one without its protection.
    done = subprocess.run(
        [*cage.python(tmp_path / "missing"), "-c", "print('runs')"],
        capture_output=True, text=True, check=False,
    )
    assert "runs" not in done.stdout and done.returncode


def test_nothing_runs_without_a_cage(
    group: Class, monkeypatch: Patch
) -> None:
    group.hand_in("anna", "open('ran', 'w')\n")
    group.how = []
    monkeypatch.setattr(shutil, "which", lambda _: None)
    said = group.run("students/anna", status=2)
    assert "apt install bubblewrap" in said and "--unprotected" in said
    # It is there, and cannot make namespaces.
    monkeypatch.setattr(shutil, "which", lambda name: name)
    monkeypatch.setattr(cage, "around", lambda _: [
        "sh", "-c", "echo bwrap: no namespaces >&2; exit 1"
    ])
    said = group.run("students/anna", status=2)
    assert "(bwrap: no namespaces)" in said and "--unprotected" in said
    assert "anna 02.1" not in said


SLOW = """\
import os, time
if os.fork():
    time.sleep(600)
os.setsid()
time.sleep(600)
"""


@pytest.mark.thorough
@pytest.mark.parametrize(("how", "ends"), [
    pytest.param([], signal.SIGINT, marks=caged),
    pytest.param([], signal.SIGKILL, marks=caged),
    (["--unprotected"], signal.SIGINT),
])
def test_whatever_ends_it_nothing_is_left(
    group: Class, how: list[str], ends: signal.Signals
) -> None:
    for name in ("anna", "ben"):
        group.hand_in(name, SLOW)

    process = subprocess.Popen(
        [sys.executable, "-m", "tools.learn", "grade", *how,
         "students/anna", "students/ben", "--jobs", "2"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
    )

    def running(first: str) -> list[psutil.Process]:
        """What it has started, with this first option."""
        return [
            p for p in started()
            if student.alive(p) and p.cmdline()[1:2] == [first]
        ]

    def started() -> list[psutil.Process]:
        with contextlib.suppress(psutil.Error):
            return psutil.Process(process.pid).children(recursive=True)
        return []

    def left() -> list[psutil.Process]:
        return [p for p in family if p.is_running() and student.alive(p)]

    family: list[psutil.Process] = []
    try:
        assert eventually(lambda: len(running("-u")) >= 4, 60)
        family += started()
        for tests in running("-m"):  # they would end by themselves
            tests.suspend()
        process.send_signal(ends)
        assert process.wait(60) == (130 if ends == signal.SIGINT else -9)
        assert eventually(lambda: not left(), 60)
    finally:
        process.kill()
        process.communicate()
        for each in left():
            with contextlib.suppress(psutil.Error):
                each.kill()
        for place, _, _ in os.walk(group.folder / "tmp"):
            os.chmod(place, 0o755)  # so that what a killed one left can go
    if ends == signal.SIGINT:
        assert not list((group.folder / "tmp").iterdir())


def test_the_page_names_the_limits() -> None:
    text = (ROOT / "docs" / "teach" / "grading.md").read_text()
    for said in (
        f"| {LONGEST:g} s, or `--seconds` |",
        f"| {cage.LIMITS['CPU']} s |",
        f"| {cage.RESIDENT // cage.MEGA} MB |",
        f"| {cage.LIMITS['NPROC']} |",
        f"| {cage.LIMITS['NOFILE']} |",
        f"| {cage.LIMITS['FSIZE'] // cage.MEGA} MB |",
        f"| {cage.DISK // cage.MEGA} MB |",
        f"| {handed_in.SOURCE_BYTES // 1024} KB |",
        f"less than {cage.LEFT // cage.MEGA} MB",
    ):
        assert said in text, said


# What other programs read ---------------------------------------------------

TEACH = ROOT / "docs" / "teach"
FILES = TEACH / "files"


@pytest.mark.thorough
def test_the_lines_of_the_page(group: Class) -> None:
    group.hand_in("anna_7_assignsubmission_file_", SOLUTION)
    group.hand_in("ben", STARTER)
    group.path("cleo")
    group.grade(status=2)

    def run(*words: str | Path) -> str:
        """What Python prints with these words."""
        return subprocess.run(
            [sys.executable, *words], cwd=group.folder, check=True,
            stdout=subprocess.PIPE, text=True,
        ).stdout

    run(FILES / "reports.py", group.json.name)
    said = (group.folder / "reports" / "ben.md").read_text()
    assert f"## 02.1 {FIRST.title}: failed\n" in said
    assert "    Expected: " in said and said.count("    FAILED: ") == 3
    assert "    not understood: " in (
        group.folder / "reports" / "cleo.md"
    ).read_text()
    page = (TEACH / "grading.md").read_text()
    glance, *tables = (
        run("-c", code)
        for code in re.findall(r"``` python\n(.*?)```", page, re.DOTALL)
    )
    assert glance.startswith("1 of 2 failed 02.1 ")
    canvas, moodle = (list(csv.reader(t.splitlines())) for t in tables)
    most = str(FIRST.minutes)
    # As GradebookImporter of instructure/canvas-lms finds its columns.
    assert canvas[0] == ["Student", "ID", "SIS Login ID", "Section",
                         f"02.1 {FIRST.title}"]
    assert [row[1:3] + row[4:] for row in canvas[1:]] == [
        ["", "", most], ["7", "", most], ["", "ben", "0"], ["", "cleo", ""],
    ]
    # As mod/assign/feedback/offline/importgradeslib.php of moodle does.
    assert moodle[0][:3] == ["Identifier", "Full name", "Grade"]
    assert [row[:3] for row in moodle[1:]] == [
        ["Participant 7", "anna", most], ["", "ben", "0"], ["", "cleo", ""],
    ]


def autograded(folder: Path, *words: str, **names: str) -> None:
    """Run a program of the page, with our ./learn.sh in this folder."""
    script = folder / "learn.sh"
    script.write_text(
        f"#!/bin/sh\ncd {shlex.quote(str(ROOT))}\nSEVEN_CALLER=$OLDPWD exec "
        f'{shlex.quote(sys.executable)} -m tools.learn "$@"\n'
    )
    script.chmod(0o755)
    work = folder / "submission"
    (work / "02.1").mkdir(parents=True)
    (work / "02.1" / "server.py").write_text("x = (\n")
    for git in (["init", "-q"], ["add", "learn.sh"],
                ["commit", "-qm", "x"], ["tag", "v1.0.0"]):
        subprocess.run(
            ["git", "-c", "user.name=x", "-c", "user.email=x@x", *git],
            cwd=folder, check=True,
        )
    subprocess.run(words, cwd=work, check=True, env=os.environ | names)


@pytest.mark.thorough
def test_gradescope(tmp_path: Path) -> None:
    (tmp_path / "results").mkdir()
    script = (FILES / "gradescope" / "run_autograder").read_text()
    for name, here in (("/opt/seven-servers", tmp_path),
                       ("/autograder", tmp_path),
                       ("/tmp/graded", tmp_path / "graded")):
        assert name in script
        script = script.replace(name, str(here))
    autograded(tmp_path, "bash", "-c", script)
    found = json.loads((tmp_path / "results" / "results.json").read_text())
    (test,) = found["tests"]
    assert (test["score"], test["max_score"]) == (0, FIRST.minutes)
    assert test["status"] == "failed" and "SyntaxError" in test["output"]


@pytest.mark.thorough
def test_classroom_50(tmp_path: Path) -> None:
    names = ("CLASSROOM", "ASSIGNMENT", "ASSIGNMENT_TYPE", "USERNAME",
             "SUBMISSION_TAG", "COMMIT_URL", "RELEASE_URL")
    autograded(
        tmp_path, sys.executable, str(FILES / "classroom50/autograder.py"),
        **dict.fromkeys(names, "x"), SEVEN_SOURCE=f"file://{tmp_path}",
    )
    text = (tmp_path / "submission" / "result.json").read_text()
    found = json.loads(text)
    # By schemas/result-v1.schema.json of foundation50/classroom50.
    assert {*found} == {
        "schema", "classroom", "assignment", "assignment_type", "owner",
        "submission", "commit", "release", "review", "datetime", "score",
        "max-score", "tests",
    }
    assert found["score"] == 0 and not found["tests"][0]["passed"]
    assert found["max-score"] == FIRST.minutes
    made = time.strptime(found["datetime"], "%Y-%m-%dT%H:%M:%SZ")
    assert abs(time.time() - calendar.timegm(made)) < 3600


def test_the_workflow() -> None:
    text = (FILES / "classroom.yml").read_text()
    runs = [s.get("run", "") for s in yaml.safe_load(text)["jobs"]["grade"][
        "steps"]]
    (graded,) = [run for run in runs if " grade " in run]
    words = graded.partition(" grade ")[2].split()
    assert read_words(["grade", *words]).must_pass
    for number in read_words(["grade", *words]).exercise:
        exercises.by_id(number)
