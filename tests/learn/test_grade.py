"""./learn.sh grade: honest work is graded, hostile work harms nobody."""

import contextlib
import csv
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml  # type: ignore[import-untyped]

from tools.learn import cage, exercises, grade
from tools.learn.examine import LONGEST, MARK, Outcome, Report
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

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.json = folder / "results.json"
        self.interpreter = [sys.executable]
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

    def names(self) -> list[str]:
        return sorted(p.name for p in (self.folder / "students").iterdir())

    def run(self, *words: str, status: int = 0, seconds: int = 300) -> str:
        done = subprocess.run(
            [*self.interpreter, "-m", "tools.learn", "grade", *words],
            cwd=ROOT, capture_output=True, text=True, check=False,
            env={
                **os.environ, "SEVEN_CALLER": str(self.folder),
                "COLUMNS": "200", "PYTHONDONTWRITEBYTECODE": "1",
                "TMPDIR": str(self.folder / "tmp"),
            },
            timeout=seconds,
        )
        self.said = done.stdout + done.stderr
        assert done.returncode == status, self.said
        assert "Traceback" not in done.stderr, self.said
        return self.said

    def grade(self, *words: str, status: int = 0) -> dict[str, Any]:
        """Grade all; the results of the first exercise by student."""
        folders = [f"students/{name}" for name in self.names()]
        self.run(
            *folders, "--json", "results.json", *words, status=status
        )
        found = json.loads(self.json.read_text())
        return {s["name"]: s["results"][0] for s in found["students"]}


@pytest.fixture
def group(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Class]:
    """In a folder that another user can reach."""
    number = f"{os.getpid()}-{time.monotonic_ns()}"
    folder = Path(os.path.realpath("/tmp"), f"seven-class-{number}")
    folder.mkdir()
    folder.chmod(0o755)
    (folder / "tmp").mkdir()
    (folder / "tmp").chmod(0o1777)
    yield Class(folder)
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
    (group.folder / "students" / "cleo").mkdir()
    results = group.grade("--csv", "all.csv", "--reports", "reports")
    assert {k: r["state"] for k, r in results.items()} == {
        "anna": "passed", "=ben": "failed", "cleo": "missing",
    }
    rows = list(csv.DictReader((group.folder / "all.csv").open()))
    assert [
        (r["student"], r["exercises_passed"], r["tests_passed"], r["tests"],
         r["02.1"]) for r in rows
    ] == [
        ("'=ben", "0", "2", "4", "failed"),
        ("anna", "1", "4", "4", "passed"),
        ("cleo", "0", "0", "4", "missing"),
    ]
    reports = {
        p.stem: p.read_text() for p in (group.folder / "reports").iterdir()
    }
    assert set(reports) == {"anna", "_ben", "cleo"}
    assert "        Expected: " in reports["_ben"]
    assert (
        f'Read the page "02 Sockets" on the site, docs/{FIRST.read}\n'
        in reports["_ben"]
    )
    assert "not handed in" in reports["cleo"]
    assert "02.1 (2 of 4 tests)" in group.said
    assert "02.1 (not handed in)" in group.said


def test_a_folder_that_does_not_exist(group: Class) -> None:
    group.hand_in("anna", SOLUTION)
    said = group.run("students/anna", "students/nobody", status=2)
    assert "there is no folder students/nobody" in said
    assert "anna 02.1: passed" in said


def test_nothing_to_grade(group: Class) -> None:
    group.hand_in("anna", SOLUTION)
    said = group.run("students", status=2)
    assert "Did you mean" in said
    assert "nobody to grade" in group.run("nowhere", status=2)
    said = group.run(
        "students/anna", "--csv", "nowhere/all.csv", status=2
    )
    assert "cannot write nowhere/all.csv" in said


def test_both_layouts_and_equal_names(group: Class) -> None:
    first = group.folder / "monday" / "anna" / "02.1"
    second = group.folder / "friday" / "anna" / "my" / "02.1"
    for folder in (first, second):
        folder.mkdir(parents=True)
        shutil.copyfile(FIRST.solution, folder / FIRST.file)
    group.run(
        "monday/anna", "friday/anna", "--reports", "reports", "--must-pass"
    )
    names = sorted(p.name for p in (group.folder / "reports").iterdir())
    assert [n.rpartition("-")[0][-6:] for n in names] == ["friday", "monday"]


def test_no_report_is_lost(group: Class) -> None:
    names = ["a b", "a_b", "a+b", "A_b", "a_b-2"]
    for name in names:
        group.path(name)  # a folder without a file: no test has to run
    group.grade("--reports", "reports")
    found = {
        p.name: p.read_text().splitlines()[0]
        for p in (group.folder / "reports").iterdir()
    }
    assert sorted(found.values()) == sorted(f"# {name}" for name in names)
    assert len({name.casefold() for name in found}) == len(names)
    assert found["a_b-2.md"] == "# a_b-2"  # it needs no change


def test_one_reason_is_said_once(group: Class) -> None:
    group.hand_in("loop", "while True:\n    pass\n")
    missing = f"no_such_module_{'x' * 60}"
    group.hand_in("missing", f"import {missing}\n")
    group.grade("--reports", "reports")
    busy = "it said nothing for 5 s and kept the CPU busy"
    assert f"02.1 (0 of 4 tests: {busy}" in group.said
    assert "02.1 (0 of 4 tests: it ended: ModuleNotFoundError: " in group.said
    assert missing not in group.said  # in short
    reports = {
        p.stem: p.read_text() for p in (group.folder / "reports").iterdir()
    }
    for name, text in reports.items():
        assert text.count("- ✗ ") == 4, text
        assert text.count("Expected: ") == text.count("But: ") == 1, name
        assert max(map(len, text.splitlines())) <= 79, text
    assert busy in " ".join(reports["loop"].split())
    assert missing in "".join(reports["missing"].split())


def failed(came: str, *story: str) -> Outcome:
    """A test that failed."""
    return Outcome("test", "A test", False, 1.0, [*story], "a page", came)


def test_what_differs_is_said_of_each() -> None:
    report = Report("02.1", [failed("none"), failed("two")], 2)
    lines = grade.outcome_lines(report)
    assert lines.count("        Expected: a page") == 2
    assert grade.in_short(grade.Result("failed", report)) == "0 of 2 tests"
    # The same came of different things: each test keeps its story.
    report.outcomes = [failed("none", "sent a"), failed("none", "sent b")]
    lines = grade.outcome_lines(report)
    assert lines.count("    Expected: a page") == 1
    assert "        sent a" in lines and "        sent b" in lines
    # Whatever a submission says stays in the block of code.
    report.outcomes = [failed("none\n# heading\n\n" + "long " * 30)]
    lines = grade.outcome_lines(report)
    assert all(line.startswith(" " * 8) for line in lines[2:] if line)
    assert max(map(len, lines)) <= 79
    # Some tests passed: one reason is not the whole truth.
    report.outcomes = [failed("none"), failed("none")]
    report.outcomes[0].passed = True
    assert grade.in_short(grade.Result("failed", report)) == "1 of 2 tests"
    assert "        But:      none" in grade.outcome_lines(report)


def test_every_page_has_a_name() -> None:
    for exercise in exercises.everything():
        name = grade.page(exercise).split('"')[1]
        assert name and ".md" not in name


def test_must_pass(group: Class) -> None:
    group.hand_in("ben", STARTER)
    group.run(
        "students/ben", "--must-pass", "--exercise", "02.1", status=1
    )


def test_the_same_dice_for_everybody(group: Class) -> None:
    for name in ("anna", "ben"):
        group.hand_in(name, STARTER)
    results = group.grade("--seed", "7")
    anna, ben = (text_of(r) for r in results.values())
    assert anna == ben
    assert text_of(group.grade("--seed", "8")["anna"]) != anna


# Hostile submissions -------------------------------------------------------

# Nothing that kills is done before it is certain that it cannot reach us.
SAFE = f"""\
import os, sys
other_user = not set([0, {os.getuid()}, {ORDINARY}]) & set(os.getresuid())
other_pids = sys.platform == "linux" and (
    os.readlink("/proc/self/ns/pid") != {{pids!r}})
if not (other_user or other_pids):
    sys.exit("not safe to try")
"""
ENDS = "sys.exit('it ' + 'went on')\n"

KILLS = {
    "kills all": ("""\
import signal
try:
    os.kill(-1, signal.SIGKILL)
except ProcessLookupError:
    pass
""", "it went on"),
    "kills its parent": ("""\
try:
    os.kill(os.getppid(), 9)
except PermissionError:
    pass
""", "it went on"),
    "kills its group": ("""\
import signal
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.kill(0, signal.SIGTERM)
""", "it went on"),
    "forks": ("""\
import time
for _ in range(900):
    if os.fork() == 0:
        time.sleep(60)
        os._exit(0)
""", "Resource temporarily unavailable|more than .* (MB|processes)"),
}
USES = {
    "many files": ("""\
import sys, time
for number in range(200):
    with open(f"file{number}", "wb") as file:
        file.write(bytes(1 << 20))
time.sleep(60)
""", "No space left on device|wrote more than 64 MB"),
    "tiny files": ("""\
import sys, time
for number in range(5000):
    open(f"file{number}", "wb").close()
time.sleep(60)
""", "No space left on device|or 2000 files"),
    "a huge file": ("""\
import sys
with open("file", "wb") as file:
    for number in range(100):
        file.write(bytes(1 << 20))
""", "File too large"),
    "memory": ("""\
import time
found = []
for number in range(2000):
    found.append(b"x" * (1 << 20))
time.sleep(60)
""", "more than 768 MB of memory"),
    "descriptors": ("""\
import os
for number in range(5000):
    os.dup(0)
""", "Too many open files"),
    "prints": ("""\
while True:
    print("x" * 100_000, end="")
""", "its first line was 'xxx"),
    "complains": ("""\
import sys
while True:
    print("x" * 100_000, file=sys.stderr)
""", "."),
    "terminal": ("raise SystemExit('\\x1b[31mred\\x07')\n", r"\\x1b\[31mred"),
    "leaves a daemon": ("""\
import os, signal, socket, sys, time
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
            sys.executable, "-c", "import time; time.sleep(300)", "{mark}"
        ], {})
    os._exit(0)
os.wait()
""" + ENDS, "it went on"),
    "nested": ("x = " + "-" * 100_000 + "1\n", "too much is nested"),
    "not UTF-8": (b"x = '\xff'\n", "server.py"),
    "endless": ("while True:\n    pass\n", "it said nothing|tests were ended"),
}
READS = {
    "reads another": ("""\
import glob, sys
open({other!r})
""" + ENDS, "No such file|Permission denied"),
    "writes here": ("""\
import sys
open({root!r} + "/tools/learn/hostile.py", "w")
""" + ENDS, "No such file|Permission denied|Read-only"),
    "sees secrets": ("""\
import os, sys
sys.exit(f"secrets: {[k for k in os.environ if 'SECRET' in k]}")
""", r"secrets: \[\]"),
}
CONNECTS = {
    "connects": ("""\
import socket, sys
socket.create_connection(("127.0.0.1", {port}))
""" + ENDS, "Connection refused"),
}


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
        "linked folder": "my is a link", "no file": "there is no my/02.1",
        "empty": "is empty",
    }


def still_there(mark: str) -> list[psutil.Process]:
    """Processes with this word in their command line."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            if mark in process.cmdline():
                found.append(process)
    return found


@pytest.mark.parametrize(
    ("protection", "kinds"),
    [
        ("full", [KILLS, USES, READS, CONNECTS]),
        ("user", [KILLS, USES, READS]),
        ("namespaces", [KILLS, USES, READS, CONNECTS]),
        ("limits", [USES]),
    ],
    ids=["full", "user", "namespaces", "limits"],
)
@linux_only
def test_hostile_submissions(
    group: Class, monkeypatch: pytest.MonkeyPatch, protection: str,
    kinds: list[dict[str, tuple[str | bytes, str]]],
) -> None:
    if protection in ("full", "user") and os.getuid():
        pytest.skip("only root can give a submission a user of its own")
    monkeypatch.setenv("A_SECRET", "of the grader")
    wanted = hand_in_files(group)
    group.hand_in("honest too", SOLUTION)
    group.hand_in("starter", STARTER)
    other = group.path("honest")
    other.parent.chmod(0o700)
    mark = f"daemon-{os.getpid()}-{time.monotonic_ns()}"
    with socket.create_server(("127.0.0.1", 0)) as listener:
        known = {
            "other": str(other), "root": str(ROOT), "mark": mark,
            "port": listener.getsockname()[1],
            "pids": os.readlink("/proc/self/ns/pid"),
        }
        for kind in kinds:
            for name, (text, sentence) in kind.items():
                if kind is KILLS:
                    text = SAFE + str(text) + ENDS
                if isinstance(text, str):
                    text = use(text, known)
                if protection == "limits" and name == "leaves a daemon":
                    continue  # without its mark nobody knows whose it is
                group.hand_in(name, text)
                wanted[name] = sentence
        if protection in ("namespaces", "limits"):
            as_ordinary(group)
        try:
            results = group.grade(
                "--protection", protection, "--seconds", "40", "--jobs", "4"
            )
            left = still_there(mark)
        finally:
            for process in still_there(mark):
                process.kill()
    assert not left
    assert not (ROOT / "tools" / "learn" / "hostile.py").exists()
    assert not list((group.folder / "tmp").iterdir())
    assert "\x1b" not in group.said
    for name in ("honest", "honest too"):
        assert results.pop(name)["state"] == "passed", name
    assert results.pop("starter")["state"] == "failed"
    unlike = {
        name: text_of(result)[:500] for name, result in results.items()
        if result["state"] != "failed"
        or not re.search(wanted[name], text_of(result))
    }
    assert not unlike
    assert set(results) == set(wanted)


def use(text: str, known: dict[str, Any]) -> str:
    """Fill in what is known now."""
    for name, value in known.items():
        text = text.replace(f"{{{name}!r}}", repr(value))
        text = text.replace(f"{{{name}}}", str(value))
    return text


@root_only
def test_users_are_cleared() -> None:
    # A user's processes go, and nobody else's.
    with grade.a_user() as one, grade.a_user() as another:
        mine, other = (
            subprocess.Popen(
                ["/bin/sleep", "60"], user=uid, group=uid, extra_groups=[]
            )
            for uid in (one, another)
        )
        try:
            grade.clear_user(one)
            assert mine.wait(10) == -signal.SIGKILL
            assert other.poll() is None
        finally:
            for process in (mine, other):
                process.kill()
                process.wait()


def test_never_root() -> None:
    for uid in (0, -1):
        with pytest.raises(PermissionError):
            cage.end_user(uid)


@linux_only
def test_a_cage_that_cannot_be_closed(tmp_path: Path) -> None:
    # Rather no program than one without its protection.
    plan = cage.Plan(str(tmp_path / "missing"), sys.executable, apart=True)
    done = subprocess.run(
        [*plan.words(), sys.executable, "-c", "print('runs')"],
        capture_output=True, text=True, check=False,
    )
    assert "runs" not in done.stdout
    assert "the cage cannot be closed" in done.stderr
    assert done.returncode == cage.FAILED


@pytest.mark.parametrize("ends", ["sys.exit(3)", "os.kill(os.getpid(), 15)"])
def test_the_program_ends_as_without(group: Class, ends: str) -> None:
    status = 3 if "exit" in ends else -signal.SIGTERM
    protection = grade.choose_protection(None, group.folder)
    with grade.a_place(protection, group.folder) as (place, uid):
        done = subprocess.run(
            [
                *protection.plan(place, uid).words(), sys.executable, "-c",
                f"import os, sys; {ends}",
            ],
            check=False,
        )
    assert done.returncode == status


def test_interrupted(group: Class) -> None:
    group.hand_in("anna", "while True:\n    pass\n")
    process = subprocess.Popen(
        [sys.executable, "-m", "tools.learn", "grade", "students/anna"],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        env={
            **os.environ, "SEVEN_CALLER": str(group.folder),
            "TMPDIR": str(group.folder / "tmp"),
        },
    )
    try:
        # The submission runs as soon as its file is there.
        deadline = time.monotonic() + 30
        while not list((group.folder / "tmp").glob("*/*/place/server.py")):
            assert time.monotonic() < deadline and process.poll() is None
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        assert process.wait(20) == 130
    finally:
        process.kill()
        process.communicate()
    assert not list((group.folder / "tmp").iterdir())


def test_what_begins_during_an_interruption_is_ended(
    tmp_path: Path,
) -> None:
    watched = grade.Watched("begins-late", 0, tmp_path, disk=False)
    with grade.Watcher() as watcher:
        watcher.stop()
        with watcher.watching(watched):
            process = subprocess.Popen(
                [sys.executable, "-c", "import time; time.sleep(60)"],
                env={**os.environ, MARK: watched.mark},
            )
            try:
                assert process.wait(20) == -signal.SIGKILL
            finally:
                process.kill()
                process.wait()


def test_tampering_is_seen(
    group: Class, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    # As if a submission had changed our files while it was graded.
    looks = iter([{"tests/x.py": (1, 1)}, {"tests/x.py": (1, 2)}])
    monkeypatch.setattr(grade, "fingerprint", lambda _: next(looks))
    monkeypatch.setattr(
        grade, "choose_protection",
        lambda *_: grade.Protection("limits", sys.executable),
    )
    path = group.hand_in("anna", "")
    from tools.learn.__main__ import main

    assert main(["grade", str(path.parents[2])]) == 1
    assert "cannot be trusted" in capsys.readouterr().out


# The classroom file --------------------------------------------------------


def test_the_classroom_file() -> None:
    path = ROOT / "docs" / "teach" / "files" / "classroom.yml"
    found = yaml.safe_load(path.read_text())
    (job,) = found["jobs"].values()
    graded = [s for s in job["steps"] if "grader" in s.get("uses", "")]
    known = {e.id: e for e in exercises.everything()}
    for step in graded:
        (wanted,) = re.findall(r"--exercise (\S+)", step["with"]["command"])
        assert step["with"]["max-score"] == known[wanted].minutes
        assert "--must-pass" in step["with"]["command"]
    assert graded
    (reporter,) = [s for s in job["steps"] if "reporter" in s.get("uses", "")]
    assert reporter["with"]["runners"].split(",") == [
        s["id"] for s in graded
    ]
    assert set(reporter["env"]) == {
        f"{s['id'].upper()}_RESULTS" for s in graded
    }
    page = ROOT / "docs" / "teach" / "grading.md"
    assert "files/classroom.yml" in page.read_text()


def test_the_page_names_the_limits() -> None:
    text = (ROOT / "docs" / "teach" / "grading.md").read_text()
    limits = grade.LIMITS
    for said in (
        f"| {LONGEST:g} s, or `--seconds` |",
        f"| {limits.seconds} s |",
        f"| {limits.resident // cage.MEGA} MB |",
        f"| {limits.processes} |",
        f"| {limits.descriptors} |",
        f"| {limits.file // cage.MEGA} MB |",
        f"| {limits.disk // cage.MEGA} MB, {limits.files} files |",
        f"| {grade.SOURCE_BYTES // 1024} KB |",
        *(f"| `{name}` " for name in grade.PROTECTIONS),
    ):
        assert said in text, said
