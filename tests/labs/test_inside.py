"""``./bench.sh labs inside``: what the tools show is what the page says."""

import re
import shutil
import sys
from pathlib import Path
from unittest.mock import Mock

import pytest

from labs.inside import measure as inside
from tests.marks import Patch, Said
from tests.tools.experiment import run
from tools.bench.experiments import labs
from tools.bench.session import Refused
from tools.data.results import DATA, load
from tools.servers import ROOT

SLEEP = "hrtimer_nanosleep"
# Server: not accepted, not read, where its threads wait, its first call.
TOLD = {
    "02": (5, 5, [SLEEP], "clock_nanosleep"),
    "03": (0, 0, ["poll_schedule", *[SLEEP] * 6], "clock_nanosleep"),
    "04": (0, 5, [SLEEP], "clock_nanosleep"),
    "06": (0, 0, ["epoll"], "epoll_"),
}
STACKS = {  # the innermost call of each thread, as py-spy names it
    "02": ["handle_client"], "03": ["socket.accept", *["handle_client"] * 6],
    "04": ["resume"], "06": ["EpollSelector.select"],
}


@pytest.mark.parametrize("name", TOLD)
def test_the_record_shows_what_the_page_tells(name: str) -> None:
    point = load(DATA / "labs-inside").find(name, "labs-inside")
    assert point
    texts = point.runs[0].texts
    queue, unread, waits, first = TOLD[name]
    lines = texts["ss"].splitlines()[2:]
    assert [ln.split()[1] for ln in lines if "LISTEN" in ln] == [str(queue)]
    assert len(re.findall(r"(?m)^ESTAB +[1-9]", texts["ss"])) == unread
    threads = [line.split()[1] for line in texts["ps"].splitlines()[2:]]
    for wait, thread in zip(waits, threads, strict=True):
        assert wait in thread
    assert texts["strace"].splitlines()[3].split()[-1].startswith(first)
    found = re.findall(r"\nThread .*\n +(\S+)", texts["py-spy"])
    assert found == STACKS[name]
    assert not re.search(r"(?<![\w.:])/(?!/)\w+/", "".join(texts.values()))


def test_another_system_is_a_sentence(monkeypatch: Patch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(Refused, match="needs Linux"):
        inside.measure(Mock())


@pytest.mark.skipif(sys.platform != "linux", reason="it needs Linux")
@pytest.mark.parametrize("there", [("ss", "ps", "strace"), ()])
def test_a_look_at_a_server(
    there: tuple[str, ...], tmp_path: Path, monkeypatch: Patch, capsys: Said
) -> None:
    """With these tools; what is missing is said and left out."""
    real = {name: shutil.which(name) for name in there}
    monkeypatch.setattr(shutil, "which", real.get)
    monkeypatch.setattr(inside, "NAMES", ("06",))
    status, kept = run(labs, tmp_path, "inside")
    (one,) = kept.points[0].runs
    if "strace could not attach" in (one.error or ""):
        pytest.skip(f"{one.error}")  # as in most containers
    assert (status, one.error) == (0, None)
    said, texts = capsys.readouterr().out, one.texts
    for tool in (*inside.LOOKS, "strace"):
        assert (tool in texts) == bool(real.get(tool))
        assert (f"There is no {tool} here" in said) != (tool in texts)
    assert str(ROOT) not in "".join(texts.values())
    if "ss" in texts:
        assert texts["ss"].count("ESTAB") == inside.CLIENTS
    if "strace" in texts:
        assert "epoll" in texts["strace"]


@pytest.mark.parametrize(("command", "text"), [
    ("echo no; exit 3", ""), ("echo 'a  '", "$ echo 'a  '\na"),
])
def test_what_a_tool_prints(command: str, text: str) -> None:
    assert inside.printed(command) == text


@pytest.mark.skipif(sys.version_info < (3, 15), reason="needs Python 3.15")
def test_the_page_shows_a_stack_of_a_task(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(shutil, "which", {}.get)
    monkeypatch.setattr(inside, "NAMES", ("06",))
    monkeypatch.setattr(inside, "newest", lambda session: sys.executable)
    run(labs, tmp_path, "inside")
    (one,) = load(tmp_path).points[0].runs
    if "tasks" not in one.texts:
        pytest.skip("one process may not read another's memory here")
    page = (ROOT / "docs" / "labs" / "inside.md").read_text("utf-8")
    shown = re.search(r'  File "<task>.*?(?=```)', page, re.S)
    assert shown
    text = re.sub(r"(?<=Task-|line )\d+", "…", one.texts["tasks"])
    assert text.count(shown[0].rstrip()) == inside.CLIENTS
