"""./bench.sh: its command line, a real small run, an interrupted one."""

import os
import platform
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from tools.bench import __main__ as command
from tools.bench import preflight
from tools.bench.keep import make_reference
from tools.data import raw, results
from tools.servers import ROOT, SERVERS

Smoke = tuple[subprocess.CompletedProcess[str], Path]
BENCH = (sys.executable, "-m", "tools.bench")


DEMO = """\
import signal

from tools.data.results import Point, Run

ABOUT = "a demonstration (no time at all)"


def add_options(parser):
    parser.add_argument("--size", type=int, default=0)
    parser.add_argument("--way")


def run(options, results, folder, console):
    if options.size == 1:
        raise KeyboardInterrupt
    results.points.append(Point("07", "demo", 1, 0.0, runs=[Run("x")]))
    results.save(folder)
    if options.size == 2:
        signal.raise_signal(signal.SIGTERM)
    if options.size == 3:
        raise OSError(28, "No space left on device")
    console.print(f"{options.repeats} repeats")
    return options.size
"""


@pytest.fixture
def demo(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An experiment called demo; the folder of committed runs."""
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "x_demo.py").write_text(DEMO)
    monkeypatch.setattr(command, "EXPERIMENTS", folder)
    monkeypatch.setattr(command, "DATA", tmp_path / "data")
    monkeypatch.setattr("tools.bench.__path__", [str(folder)])
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    yield tmp_path / "data"
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)
    sys.modules.pop("tools.bench.x_demo", None)


def bench(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*BENCH, *words], capture_output=True, text=True, cwd=ROOT,
        timeout=120, check=False,
    )


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["--only", "nonsense"], "no server is called 'nonsense'"),
        (["--only", ","], "--only names no server"),
        (["--repeats", "0"], "'0' is not a number from 1 to 50"),
        (["--repeats", "many"], "'many' is not a number from 1 to 50"),
        (["--full", "--smoke"], "not allowed with"),
        (["--reference"], "--reference needs --full"),
        (["--full", "--only", "3", "--reference"], "needs --full, and all"),
        (["--full", "--reference", "--output", "x"], "exclude each other"),
        (["--output", __file__], "it must be a folder"),
        (["--banana"], "--banana"),
        (["banana"], "there is no experiment 'banana'; there are "),
        (["demo", "--size", "x"], "argument --size: invalid int value"),
        (["demo", "--repeats", "0"], "'0' is not a number from 1 to 50"),
        (["demo", "--output", __file__], "it must be a folder"),
        (["demo", "--output", "x", "--reference"], "exclude each other"),
        (["demo", "again"], "unrecognized arguments: again"),
    ],
)
def test_nonsense_gives_one_sentence_and_status_2(
    words: list[str],
    sentence: str,
    capsys: pytest.CaptureFixture[str],
    demo: Path,
) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(words)
    assert caught.value.code == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert sentence in said.err
    assert said.err.count("\n") == 1


def test_results_already_there_are_untouched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "results.json"
    file.write_text("precious")
    with pytest.raises(SystemExit) as caught:
        command.main(["--output", str(tmp_path)])
    assert caught.value.code == 2
    assert file.read_text() == "precious"


def test_list_names_every_server(capsys: pytest.CaptureFixture[str]) -> None:
    assert command.main(["--list"]) == 0
    said = capsys.readouterr().out
    for server in SERVERS:
        assert server.name in said
        assert server.title in said


def test_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(["--help"])
    assert caught.value.code == 0
    said = capsys.readouterr().out
    for option in ("--classic", "--full", "--only", "--list", "--no-site"):
        assert option in said


def test_help_lists_the_experiments(
    capsys: pytest.CaptureFixture[str], demo: Path
) -> None:
    for words in (["--help"], ["demo", "--help"]):
        with pytest.raises(SystemExit) as caught:
            command.main(words)
        assert caught.value.code == 0
        said = capsys.readouterr().out
        assert "a demonstration (no time at all)" in said
    for option in ("--size", "--repeats", "--output", "--reference"):
        assert option in said


@pytest.mark.parametrize("name", command.experiment_names())
def test_every_experiment_explains_itself(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main([name, "--help"])
    assert caught.value.code == 0
    assert "--output DIR" in capsys.readouterr().out


def test_an_experiment_runs(
    demo: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "out"
    words = ["demo", "--way", "a=/home/me/x,/y/z", "--output", str(folder)]
    assert command.main([*words, "--repeats", "3"]) == 0
    assert "3 repeats" in capsys.readouterr().out
    found = results.load(folder)
    assert (found.mode, found.complete) == ("demo", True)
    assert found.command == "./bench.sh demo --way a=x,z --repeats 3"
    assert not demo.exists()


def test_an_experiment_becomes_the_committed_run_of_its_name(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command, "OWN", tmp_path / "own")
    (demo / "demo").mkdir(parents=True)
    (demo / "demo" / "old").write_text("old")
    assert command.main(["demo", "--reference", "--size", "4"]) == 4
    assert (demo / "demo" / "old").exists()  # that was no good run
    assert command.main(["demo", "--reference"]) == 0
    assert [p.name for p in (demo / "demo").iterdir()] == ["results.json"]


@pytest.mark.parametrize(
    ("size", "status", "sentence"),
    [
        (1, 130, "Interrupted before anything was measured."),
        (2, 130, "Interrupted: what was measured is in"),
        (3, 1, "Stopped: No space left on device."),
    ],
)
def test_an_experiment_that_is_cut_short(
    demo: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    size: int,
    status: int,
    sentence: str,
) -> None:
    folder = tmp_path / "out"
    words = ["demo", "--size", str(size), "--output", str(folder)]
    assert command.main(words) == status
    assert sentence in capsys.readouterr().out
    if size == 1:
        assert not folder.exists()
    else:
        assert not results.load(folder).complete


def test_an_experiment_is_not_the_readers_run_of_the_steps(
    demo: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(results, "OWN", tmp_path)
    assert command.main(["demo", "--output", str(tmp_path / "1")]) == 0
    assert results.newest_own() is None
    assert results.newest_own(("demo",)) == tmp_path / "1"


@pytest.fixture(scope="module")
def smoke(tmp_path_factory: pytest.TempPathFactory) -> Smoke:
    """A smoke run of two servers, loaded by the built-in client."""
    folder = tmp_path_factory.mktemp("smoke")
    done = bench(
        "--smoke", "--only", "02,05-heap", "--load", "python", "--no-site",
        "--output", str(folder),
    )
    return done, folder


def test_a_small_run_measures_and_saves(smoke: Smoke) -> None:
    done, folder = smoke
    assert done.returncode == 0, done.stdout + done.stderr
    found = results.load(folder)
    assert found.complete
    assert (found.mode, found.load) == ("smoke", "python")
    assert found.command == (
        "./bench.sh --smoke --only 02,05-heap --load python"
    )
    assert [(p.server, p.suite) for p in found.points] == [
        ("02", "classic"), ("05-heap", "classic"),
        ("02", "raw-keep"), ("05-heap", "raw-keep"),
    ]
    blocking, heap = (found.find(n, "classic") for n in ("02", "05-heap"))
    assert blocking is not None and heap is not None
    assert blocking.status == heap.status == "ok"
    slow, fast = blocking.share, heap.share
    assert slow and fast
    assert fast / slow > 3  # one waits for each client, the other for all


def test_the_table_shows_every_server(smoke: Smoke) -> None:
    done, _ = smoke
    rows = [line.split() for line in done.stdout.splitlines()]
    for name in ("02", "05-heap"):
        found = [row for row in rows if row[:1] == [name]]
        assert sum("$" not in row and len(row) >= 8 for row in found) == 2


def test_nothing_in_the_results_names_this_machine(smoke: Smoke) -> None:
    _, folder = smoke
    texts = [(folder / "results.json").read_text()]
    texts += [raw.read(folder, name) for name in raw.names(folder)]
    names = {str(ROOT), str(Path.home()), os.uname().nodename, sys.executable}
    for text in texts:
        for name in names - {"", "/", "localhost"}:
            assert name not in text


def test_without_ab_it_says_how_to_get_it_and_goes_on(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    file = tmp_path / "apt-get"
    file.write_text("#!/bin/sh\nexit 1\n")
    file.chmod(file.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    console = Console(width=200)
    assert not preflight.find_ab(console)
    said = capsys.readouterr().out
    assert "sudo apt-get install -y apache2-utils" in said
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert not preflight.find_ab(console)
    assert "That did not work." in capsys.readouterr().out


def test_as_root_it_installs_ab(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    installer = tmp_path / "apk"
    tool = tmp_path / "ab"
    installer.write_text(
        f"#!/bin/sh\n[ \"$*\" = 'add apache2-utils' ] || exit 1\n"
        f"printf '#!/bin/sh\\necho This is ApacheBench, Version 2.3\\n' "
        f"> {tool}\n/bin/chmod +x {tool}\n"
    )
    installer.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert preflight.find_ab(Console())
    assert preflight.tool_versions("ab")["ab"] == "2.3"


def test_an_unknown_system_without_ab(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not preflight.find_ab(Console(width=200))
    assert "no package manager I know" in capsys.readouterr().out


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupted_run_keeps_what_it_has(
    tmp_path: Path, number: int
) -> None:
    process = subprocess.Popen(
        [
            *BENCH, "--smoke", "--only", "02,05-heap", "--load", "python",
            "--no-site", "--output", str(tmp_path),
        ],
        cwd=ROOT, text=True, stdout=subprocess.PIPE,
    )
    try:
        deadline = time.monotonic() + 30
        while not (tmp_path / "results.json").exists():
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(0.8)  # into the next point
        family = psutil.Process(process.pid).children(recursive=True)
        process.send_signal(number)
        said, _ = process.communicate(timeout=20)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 130
    assert "Interrupted: what was measured is in" in said
    found = results.load(tmp_path)
    assert not found.complete
    assert found.points
    assert not [member for member in family if member.is_running()]


def test_a_complete_run_becomes_the_reference(tmp_path: Path) -> None:
    reference = tmp_path / "data" / "reference"
    reference.mkdir(parents=True)
    (reference / "old").write_text("old")
    fresh = tmp_path / "results" / "now"
    ran = results.Run("ab", 1, peak_memory=1, latency_ms={"p50": 1, "p66": 2})
    point = results.Point("02", "classic", 10, 0.1, runs=[ran])
    machine = preflight.machine(1024)
    made = results.Results(
        "c", "peers", "", "", machine, {}, complete=True, points=[point]
    )
    raw.append(fresh, "02", "what ab said")
    made.save(fresh)
    assert results.load(fresh) == made
    assert make_reference(fresh, reference) == reference
    assert sorted(p.name for p in reference.iterdir()) == [
        "raw.zip", "results.json",
    ]
    assert raw.read(reference, "02") == "what ab said"
    assert not fresh.exists()
    (kept,) = results.load(reference).points[0].runs
    assert kept == results.Run("ab", 1)  # what a page reads of the peers


def test_facts_about_the_machine() -> None:
    machine = preflight.machine(1024)
    assert machine.cores >= 1
    assert machine.memory > 10**8
    assert machine.python.split()[1].count(".") == 2
    assert os.uname().nodename not in machine.kernel.split()


def test_releases_lose_the_names_in_them(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(platform, "system", lambda: "Linux")
    for release, kernel in {
        "6.1.0-18-amd64": "Linux 6.1.0",
        "5.15.90.1-microsoft-standard-WSL2": "Linux 5.15.90.1 (WSL)",
        "6.9-anna+": "Linux 6.9",
    }.items():
        monkeypatch.setattr(
            platform, "release", lambda text=release: text
        )
        assert preflight._kernel() == kernel


def test_notes_say_what_the_machine_cannot_do() -> None:
    text = " ".join(preflight.notes(256, 4096))
    assert "More than 192 clients are not possible" in text
    assert "256 open files" in text
