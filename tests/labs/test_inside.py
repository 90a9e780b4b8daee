"""``./bench.sh labs inside``: what the tools show is what the page says."""

import re
import shutil
import sys
from pathlib import Path

import pytest

from labs.inside import measure as inside
from tests.marks import Patch, Said
from tests.tools.experiment import run, session
from tools.bench.experiments import labs
from tools.bench.session import Refused
from tools.data.results import DATA, Run, load
from tools.servers import ROOT

SLEEP, POLL, EPOLL = "hrtimer_nanosleep", "poll_schedule", "epoll"
# Server: not accepted, not read, where its threads wait, its first call.
TOLD = {
    "02": (5, 5, [SLEEP], "clock_nanosleep"),
    "03": (0, 0, [POLL, *[SLEEP] * 6], "clock_nanosleep"),
    "04": (0, 5, [SLEEP], "clock_nanosleep"),
    "06": (0, 0, [EPOLL], "epoll_wait"),
}


def seen(one: Run) -> tuple[int, int, list[str], str]:
    """What the texts of a run say, in the shape of TOLD."""
    queue = unread = 0
    for line in one.texts["ss"].splitlines()[2:]:
        state, waiting, *_ = line.split()
        queue += int(waiting) if state == "LISTEN" else 0
        unread += state == "ESTAB" and waiting != "0"
    threads = [line.split()[1] for line in one.texts["ps"].splitlines()[2:]]
    waits = [
        next((kind for kind in (SLEEP, EPOLL, POLL) if kind in each), each)
        for each in threads
    ]
    first = one.texts["strace"].splitlines()[3].split()[-1]
    return queue, unread, waits, first.replace("pwait", "wait")


def test_the_record_shows_what_the_page_tells() -> None:
    found = {p.server: p.runs[0] for p in load(DATA / "labs-inside").points}
    assert {name: seen(one) for name, one in found.items()} == TOLD
    stacks = {  # the innermost call of each thread, as py-spy names it
        name: re.findall(r"\nThread .*\n +(\S+)", one.texts["py-spy"])
        for name, one in found.items()
    }
    assert stacks["02"] == ["handle_client"] and stacks["04"] == ["resume"]
    assert stacks["03"] == ["socket.accept", *["handle_client"] * 6]
    assert "handle_client" not in found["06"].texts["py-spy"]


def test_the_record_names_no_place_of_this_machine() -> None:
    text = (DATA / "labs-inside" / "results.json").read_text()
    assert not re.search(r"(?<![\w.:])/(?!/)\w+/", text)


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


def test_a_tool_that_fails_is_left_out() -> None:
    assert inside.printed("echo no; exit 3") == ""
    assert inside.printed("echo 'a  '") == "$ echo 'a  '\na"


def test_another_system_is_a_sentence(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(Refused, match="needs Linux"):
        inside.measure(session(tmp_path))
