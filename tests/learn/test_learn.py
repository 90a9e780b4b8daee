"""./learn.sh: what a student types, and what comes of it."""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from xml.etree import ElementTree

import pytest

from tests.learn.conftest import FIRST, Desk
from tests.marks import Patch
from tools import race
from tools.bench.experiments import record
from tools.bench.preflight import no_strace
from tools.common.files import lay_out
from tools.data.recording import load
from tools.learn import cage, exercises, step
from tools.learn.student import LEFT_BYTES, Program, Wrong, eventually
from tools.servers import ROOT

STARTER = FIRST.starter.read_text()
SOLUTION = FIRST.solution.read_text()
# A server that gives the same response to everybody.
ANSWERS = """
import socket
listener = socket.create_server(("127.0.0.1", 0))
port = listener.getsockname()[1]
print(f"Serving on http://127.0.0.1:{port}/ (Ctrl-C to stop)", flush=True)
while True:
    sock, _ = listener.accept()
    with sock:
        sock.recv(4096)
        sock.sendall(%r)
"""


@pytest.fixture
def begun(desk: Desk) -> Desk:
    """02.1 is begun."""
    desk.run("start", "02.1")
    return desk


def test_start(desk: Desk) -> None:
    said = desk.run("start", "02.1")
    assert FIRST.title in said and "learn.sh check 02.1" in said
    assert {p.name for p in desk.file.parent.iterdir()} == {
        "server.py", "task.md", "web.py", "accepting.py"
    }
    assert desk.file.read_text() == STARTER


@pytest.mark.parametrize("word", ["02.1", "2.1", "two_pieces"])
def test_nothing_of_theirs_is_overwritten(begun: Desk, word: str) -> None:
    folder = begun.file.parent
    for number in (1, 2):
        mine = dict.fromkeys(("server.py", "task.md"), f"# {number}\n")
        for name, text in mine.items():
            (folder / name).write_text(text)
        said = begun.run("start", word)
        assert "Kept as you left it: server.py, task.md." in said
        assert all((folder / k).read_text() == v for k, v in mine.items())
        kept = folder / f"before-{number}"
        assert str(kept) in begun.run("reset", word)
        assert all((kept / k).read_text() == v for k, v in mine.items())
        assert begun.file.read_text() == STARTER


def test_the_first_start_without_a_net(tmp_path: Path) -> None:
    for name in ("learn.sh", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools" / "venv.sh", tmp_path / "tools")
    python = tmp_path / "python"  # whose pip finds nothing
    python.write_text(
        "#!/bin/sh\nmkdir -p .venv/bin\necho exit 1 > .venv/bin/python\n"
        "chmod +x .venv/bin/python\n"
    )
    python.chmod(0o755)
    done = subprocess.run(
        [tmp_path / "learn.sh", "list"], capture_output=True, text=True,
        env={**os.environ, "PYTHON": str(python)}, check=False,
    )
    assert done.returncode == 1
    page, _, section = done.stderr.split()[-1].partition("#")
    assert f"{{ #{section} }}" in (ROOT / page).read_text("utf-8")


@pytest.mark.parametrize(("words", "sentence"), [
    ("start 09.1", "there is no exercise '09.1'"),
    ("check 02.1", "start 02.1"),
    ("check", "nothing is begun yet: ./learn.sh start 02.1"),
    ("solution 02.1", "not passed yet"),
    ("report --junit missing/junit.xml", "there is no such folder"),
])
def test_what_cannot_be_done(desk: Desk, words: str, sentence: str) -> None:
    said = desk.run(*words.split(), status=2)
    assert sentence in said and len(said.splitlines()) == 1


def test_the_first_success(begun: Desk) -> None:
    said = begun.check(STARTER)
    assert "Expected:" in said and "hint 02.1" in said
    assert "Passed." in begun.check(SOLUTION, status=0)
    assert "✓" in begun.run("list")
    assert "def receive" in begun.run("solution", "02.1")


def test_what_fails_can_be_seen_line_by_line(
    begun: Desk, tmp_path: Path, monkeypatch: Patch
) -> None:
    said = begun.check(STARTER)
    [words] = re.findall(r"Line by line: \./learn\.sh (.*)", said)
    assert words == f"step {begun.file} --clients pieces"
    monkeypatch.setattr(step, "OWN", tmp_path / "results")
    assert "Written: " in begun.run(*words.split(), "--no-browser")
    page = (tmp_path / "results/steps/02.1-server.html").read_text()
    assert "<summary>web.py, which it imports" in page
    assert page.index("two pieces") < page.index("One client")
    said = begun.run(*words.split()[:-1], "half a", status=2)
    assert "there are no clients 'half a'" in said


@pytest.mark.skipif(
    no_strace() is not None and "CI" not in os.environ, reason=str(no_strace())
)
@pytest.mark.parametrize(("file", "words", "beside"), [
    ("04_selectors/sketch.py", [], "04"),
    pytest.param("my/05.2/server.py", ["--beside", "03-pool"], "03-pool",
                 marks=pytest.mark.thorough),
    pytest.param("my/05.2/server.py", [], "05", marks=pytest.mark.thorough),
])
def test_race(
    desk: Desk, tmp_path: Path, monkeypatch: Patch, file: str,
    words: list[str], beside: str,
) -> None:
    monkeypatch.setattr(race, "OWN", tmp_path / "results")
    step_of, name = Path(file).parent.name, tmp_path / file
    if step_of == "05.2":
        desk.run("start", step_of)
        solution = exercises.by_id(step_of).solution.read_text()
        name = desk.my / step_of / "server.py"
        name.write_text(solution)
    else:
        name.parent.mkdir()
        name.write_text((ROOT / file).read_text())
    said = desk.run("race", str(name), "--no-browser", *words)
    assert "system calls: " in said
    text = (tmp_path / f"results/races/{step_of}-{name.stem}.html").read_text()
    assert f"<strong>yours</strong> {name.name}" in text
    assert f"<strong>{beside}</strong>" in text
    made = load(tmp_path / "results/races/yours.json")
    assert made.peak == (1 if beside == "04" else 20)


@pytest.mark.parametrize(("text", "sentence"), [
    (None, "there is no file"), ("x = (", "has to take --port and --delay"),
    ("x = (  # --port", "the server does not start: SyntaxError"),
])
def test_what_cannot_race(
    desk: Desk, tmp_path: Path, text: str | None, sentence: str,
    monkeypatch: Patch,
) -> None:
    monkeypatch.setattr(record, "impossible", lambda *of: (0, ""))
    file = tmp_path / "mine.py"
    if text:
        file.write_text(text)
    said = desk.run("race", str(file), "--no-browser", status=2)
    assert sentence in said and len(said.splitlines()) == 1


def test_check_without_a_name_checks_all_that_is_begun(desk: Desk) -> None:
    (desk.my / "03.1").mkdir(parents=True)  # its file was removed
    for number in ("01.2", "02.1"):
        desk.run("start", number)
        (desk.my / number / "server.py").write_text("")
    said = desk.run("check", status=1)
    assert re.findall(r"^0\d\.\d", said, re.M) == ["01.2", "02.1"]
    assert "0 of 2 exercises pass." in said


def test_hints_come_one_by_one(begun: Desk) -> None:
    assert begun.run("hint", "02.1").count("Hint ") == 1
    assert begun.run("hint").count("Hint ") == 2
    assert "def receive" in begun.run("solution", "--give-up")
    assert "def receive" in begun.run("solution")


def test_who_reads_may_have_enough(begun: Desk) -> None:
    reads, writes = os.pipe()
    os.close(reads)
    done = subprocess.run(
        [sys.executable, "-m", "tools.learn", "solution", "--give-up"],
        cwd=ROOT, env={**os.environ, "SEVEN_MY": str(begun.my)},
        stdout=writes, stderr=subprocess.PIPE, check=False,
    )
    os.close(writes)
    assert (done.returncode, done.stderr) == (141, b"")


# What a file does -> the file, and what is said of it.
WRONG: dict[str, tuple[str | bytes, str]] = {
    "syntax": (
        "def serve(:\n", "SyntaxError: invalid syntax (server.py, line 1)"
    ),
    "empty": ("", "it ended: it said nothing on stderr"),
    "crash": (
        "raise ValueError('mine')\n", "ValueError: mine (server.py, line 1)"
    ),
    "endless": (
        "while True:\n    pass\n", "kept the CPU busy: an endless loop?"
    ),
    "silent": ("import time\ntime.sleep(60)\n", "it said nothing for 5 s"),
    "prints": ("print('hello')\n", "its first line was 'hello'"),
    "port": (
        "import time\nprint('Serving on http://127.0.0.1:9/ "
        "(Ctrl-C to stop)', flush=True)\ntime.sleep(60)\n",
        "it named port 9 and does not listen",
    ),
    "killed": ("import os\nos.kill(os.getpid(), 9)\n", "it ended"),
    # In a comment, 3.15 lets it pass.
    "not UTF-8": (b"x = 'caf\xe9'\n", "SyntaxError: Non-UTF-8 code"),
    "no length": (
        ANSWERS % b"HTTP/1.0 405 No\r\n\r\n", "it has no Content-Length"
    ),
    "wrong length": (
        ANSWERS % b"HTTP/1.0 405 No\r\nContent-Length: 1x\r\n\r\n",
        "Content-Length is '1x'",
    ),
    "latin-1": (
        ANSWERS % b"HTTP/1.0 405 No\r\nServer: caf\xe9\r\n"
        b"Content-Length: 0\r\n\r\n", "status 405 came",
    ),
    "error": (
        SOLUTION.replace("received += data", "received += dta"),
        "nothing came, and the server closed the connection. On its "
        "terminal: NameError: name 'dta' is not defined",
    ),
}
QUICK = ("error", "no length", "killed")  # the others are thorough


@pytest.mark.parametrize(("text", "sentence"), [
    pytest.param(
        *case, id=name, marks=[pytest.mark.thorough] * (name not in QUICK)
    )
    for name, case in WRONG.items()
])
def test_what_goes_wrong_is_said(
    begun: Desk, text: str | bytes, sentence: str
) -> None:
    assert sentence in " ".join(begun.check(text).split())


def test_responses_that_end_too_early(desk: Desk) -> None:
    desk.run("start", "01.3")
    file = desk.my / "01.3" / "answers.py"
    for text, sentence in (
        ("import sys\nsys.exit()\n", "it calls exit()"),
        ("import os\nos._exit(0)\n", "it ended before"),
        ("print(1, end='')\n", "Your program printed:\n      | 1\n"),
    ):
        file.write_text(text)
        said = desk.run("check", "01.3", status=1)
        assert sentence in said and "The test itself failed" not in said


def test_files_beside_it_that_are_changed(begun: Desk) -> None:
    web = begun.file.with_name("web.py")
    assert "web.py" not in begun.check("")
    web.write_text("x = (\n")
    assert "web.py beside your file" in begun.check("")
    web.unlink()
    assert "web.py beside your file" in begun.check("")
    begun.run("start", "02.1")
    assert "web.py" not in begun.check("")


@pytest.mark.parametrize("before", [
    pytest.param("""
import os, signal, time
if os.fork() == 0:
    os.setsid()
    if os.fork():
        os._exit(0)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(600)
""", id="leaves a process"),
    # Far more than a pipe holds, and before the ready line.
    pytest.param("print('x' * 8_000_000)\n", id="prints a lot"),
])
def test_what_passes_all_the_same(begun: Desk, before: str) -> None:
    assert "Passed." in begun.check(before + SOLUTION, status=0)


def test_what_it_wrote_is_shown(begun: Desk) -> None:
    said = begun.check(
        "print(*range(99), 'mine\\x1b[31m', sep='\\n')\nprint(dta)\n"
    )
    assert "it ended: NameError" in said
    assert "Your program printed:\n      | ...\n      | 60\n" in said
    assert "| mine\N{REPLACEMENT CHARACTER}[31m\n" in said
    assert "On stderr:\n      | Traceback" in said


def test_report(begun: Desk) -> None:
    junit = begun.my / "junit.xml"
    said = begun.run("report", "--json", "--junit", str(junit), status=1)
    (found,) = json.loads(said[said.index("["):said.rindex("]") + 1])
    assert found["exercise"] == "02.1" and not found["passed"]
    suites = ElementTree.parse(junit).getroot()
    assert [s.get("name") for s in suites] == [f"02.1 {FIRST.title}"]
    assert suites.find(".//failure") is not None
    begun.file.write_text("")
    said = begun.run("report", "--junit", str(junit), status=1)
    assert FIRST.title in said and "0/5" in said
    assert len(ElementTree.parse(junit).findall(".//failure")) == 5


def test_report_keeps_an_earlier_pass(begun: Desk) -> None:
    begun.check(SOLUTION, status=0)
    begun.file.write_text("")
    assert "(passed 20" in begun.run("report", status=1)
    said = begun.run("report", "--json", status=1)
    (found,) = json.loads(said[said.index("["):said.rindex("]") + 1])
    assert not found["passed"] and found["passed_before"].startswith("20")


def test_watch_checks_again_on_save(begun: Desk, monkeypatch: Patch) -> None:
    def save() -> None:
        begun.file.write_text(SOLUTION)
        os.utime(begun.file, (1, 1))  # a clock need not have moved on

    between: Iterator[Callable[[], object]] = iter(
        [list, save, list, begun.file.unlink, list, list]
    )

    def sleep(seconds: float) -> None:
        for happens in between:
            happens()
            return
        raise KeyboardInterrupt

    monkeypatch.setattr("tools.learn.__main__.time", SimpleNamespace(
        sleep=sleep, strftime=time.strftime
    ))
    said = begun.run("watch", "02.1", status=130)
    first, second, rest = said.split("Waiting for you to save")
    assert "Expected:" in first and "Passed." in second
    assert rest.count("is gone. Waiting ...") == 1


FORKS = """
import ctypes, os, socket, sys, threading, time
{first}
if os.fork():
    {idles}
{leaves}
threading.Thread(target=time.sleep, args=[600], daemon=True).start()
port = (held := socket.create_server(("127.0.0.1", 0))).getsockname()[1]
print(f"Serving on http://127.0.0.1:{{port}}/ (Ctrl-C to stop)", flush=True)
ended = time.monotonic() + 600
while time.monotonic() < ended:
    if os.fork() == 0:
        sum(range(300_000))
        os._exit(0)
    os.wait()
"""
IDLES = "time.sleep(600)"
LEAVES = "os.setsid()\nif os.fork(): os._exit(0)"
# What the parent does first, and then, and the child that serves.
PARENTS = {
    "idles": ("", IDLES, ""),
    "is left": ("", IDLES, LEAVES),
    "is left for ever": (  # it is no subreaper any more
        "ctypes.CDLL(None).prctl(36, 0, 0, 0, 0)", IDLES, LEAVES
    ),
    "has another name": (
        "", "os.execv(sys.executable, ['x', '-c', 'import time; "
        "time.sleep(600)'])", ""
    ),
}


@pytest.mark.parametrize("parent", PARENTS)
def test_a_parent_that_idles_hides_nothing(
    tmp_path: Path, parent: str
) -> None:
    caged = parent != "idles"
    if caged and not shutil.which("bwrap"):
        pytest.skip("bubblewrap is not installed")
    outer = cage.lay_out_place(tmp_path)
    file = outer / cage.READ / "server.py"
    first, idles, leaves = PARENTS[parent]
    file.write_text(FORKS.format(first=first, idles=idles, leaves=leaves))
    python = cage.python(outer) if caged else ()
    program = Program(file, python, outer / cage.WRITTEN)
    try:
        server = program.start()
        assert len(server.thread_ids()) >= 3 and server.threads() >= 3
        before = server.sleeps()
        assert eventually(server.runs)
        assert eventually(lambda: server.sleeps() > before + 10)
        with pytest.raises(Wrong, match="kept the CPU busy"):
            server.expect_idle()
    finally:
        program.end()


def listen_at(path: Path) -> None:
    """A socket there; from its folder, as such a name has to be short."""
    with socket.socket(socket.AF_UNIX) as made, contextlib.chdir(path.parent):
        made.bind(path.name)


LEFT: dict[str, tuple[Callable[[Path], object], str]] = {
    "nothing": (lambda path: None, "there is none"),
    "link": (lambda path: path.symlink_to(__file__), "it is a link"),
    "hard link": (
        lambda path: os.link(path.parent / "good", path), "it is a link"
    ),
    "folder": (Path.mkdir, "it cannot be opened: Is a directory"),
    "pipe": (os.mkfifo, "it is no ordinary file"),
    "socket": (listen_at, "it cannot be opened: No such device or address"),
    "device": (
        lambda path: os.mknod(path, 0o20600, os.makedev(1, 5)),
        "it is no ordinary file",
    ),
    "large file": (
        lambda path: path.write_bytes(bytes(LEFT_BYTES + 1)), "it is larger"
    ),
}


@pytest.mark.parametrize("kind", LEFT)
def test_what_a_program_leaves(tmp_path: Path, kind: str) -> None:
    leave, said = LEFT[kind]
    if kind == "device" and os.getuid():
        pytest.skip("only root makes devices")
    (tmp_path / "good").write_bytes(b"x" * LEFT_BYTES)
    leave(tmp_path / "notes")
    program = Program(tmp_path / "server.py")
    with pytest.raises(Wrong, match="a file notes .*; " + said):
        program.left("notes")
    if kind != "hard link":
        assert len(program.left("good")) == LEFT_BYTES


def test_what_stands_below_is_there_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "read").mkdir()
    program = Program(lay_out(
        tmp_path / "read",
        {"answers.py": b"from web import SAYS\n", "web.py": b"SAYS = 1"},
        [tmp_path / "log.txt"],
    ) / "answers.py", home=tmp_path)
    with program.below("web.py", "SAYS = open('log.txt', 'a').name"):
        assert program.values() == {"SAYS": "log.txt"}
        assert not program.left("log.txt")
        assert program.path.with_name("log.txt").exists()
    assert program.values() == {"SAYS": 1}


@pytest.mark.thorough
def test_a_handout_works_without_solutions(tmp_path: Path) -> None:
    if not (ROOT / ".git").exists():
        pytest.skip("no history: the handout has the files that git knows")

    def run(folder: Path, *words: str, status: int = 0) -> str:
        done = subprocess.run(
            [sys.executable, "-m", "tools.learn", *words], cwd=folder,
            capture_output=True, text=True, check=False,
            env=os.environ | {"SEVEN_CALLER": str(tmp_path)},
        )
        said = done.stdout + done.stderr
        assert done.returncode == status and "Traceback" not in said, said
        return said

    copy = tmp_path / "händ out"
    run(ROOT, "handout", copy.name)
    assert "is there already" in run(ROOT, "handout", copy.name, status=2)
    found = [str(p.relative_to(copy)) for p in copy.rglob("*") if p.is_file()]
    assert not re.search(r"(solution|another)\.py|\.git/", "\n".join(found))
    text = "\n".join(
        (copy / name).read_text("utf-8", "replace") for name in found
        if name.endswith((".md", ".py", ".toml"))
    )
    for each in exercises.everything():
        assert each.solution.read_text("utf-8") not in text
    assert "wrong.toml" not in {Path(name).name for name in found}
    run(copy, "start", "03.3")
    run(copy, "check", "03.3", status=1)
    assert "ask your teacher" in run(copy, "solution", "03.3", status=2)
    mine = f"{copy.name}/my/03.3/"
    (tmp_path / "anna").mkdir()
    shutil.copytree(tmp_path / mine, tmp_path / "anna" / "03.3")
    said = run(copy, "grade", "anna", "--unprotected")
    assert "anna 03.3: failed" in said
    assert "git does not know" in run(copy, "handout", "more", status=2)
