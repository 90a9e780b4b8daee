"""``./bench.sh labs inside``: what the tools show is what the page says."""

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.marks import Patch, Said
from tests.tools.experiment import run, session
from tools.bench import preflight
from tools.bench.experiments import inside, labs
from tools.bench.session import Refused
from tools.bench.strace import StraceError
from tools.common.launch import check_seen
from tools.data.results import DATA, Run, load
from tools.servers import ROOT, by_name

TOOLS = all(map(shutil.which, ("ss", "ps"))) and not preflight.no_strace()
needs_linux = pytest.mark.skipif(
    sys.platform != "linux", reason="the lab needs Linux"
)
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


def stacks(one: Run) -> Iterator[str]:
    """The innermost call of each thread, as py-spy names it."""
    for text in re.split(r"\nThread .*\n", one.texts["py-spy"])[1:]:
        yield text.split()[0]


def test_the_record_shows_what_the_page_tells() -> None:
    found = {p.server: p.runs[0] for p in load(DATA / "labs-inside").points}
    assert {name: seen(one) for name, one in found.items()} == TOLD
    if "py-spy" in found["02"].texts:
        assert [*stacks(found["02"])] == ["handle_client"]
        threads = ["socket.accept", *["handle_client"] * 6]
        assert [*stacks(found["03"])] == threads
        assert [*stacks(found["04"])] == ["resume"]
        assert "handle_client" not in found["06"].texts["py-spy"]


def test_the_record_names_no_place_of_this_machine() -> None:
    text = (DATA / "labs-inside" / "results.json").read_text()
    assert not re.search(r"(?<![\w.:])/(?!/)\w+/", text)


@pytest.mark.thorough
@pytest.mark.skipif(not TOOLS, reason="ss, ps or strace is missing")
@pytest.mark.parametrize("name", ["03", "04"])
def test_a_look_at_a_server(
    name: str, tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(inside, "COUNTED", 0.1)
    queue, unread, waits, call = TOLD[name]
    for moment in (0.3, 1.0, 3.0):  # a busy machine needs a longer one
        monkeypatch.setattr(inside, "MOMENT", moment)
        try:
            one = inside.look_inside(session(tmp_path), by_name(name))
        except StraceError as error:  # as in most containers
            pytest.skip(str(error))
        found = seen(one)
        if found[2][0] in ("0", "-"):  # a kernel that does not tell
            waits = found[2][:1] * len(waits)
        if found == (queue, unread, waits, call):
            break
    assert found == (queue, unread, waits, call)
    assert str(ROOT) not in "".join(one.texts.values())


@needs_linux
def test_what_is_missing_is_said_and_left_out(
    tmp_path: Path, monkeypatch: Patch, capsys: Said
) -> None:
    monkeypatch.setattr(inside, "NAMES", ("06",))
    monkeypatch.setattr(inside, "MOMENT", 0.0)
    check_seen()
    there = shutil.which
    monkeypatch.setattr(
        shutil, "which", lambda name: there(name) if name == "ps" else None
    )
    status, kept = run(labs, tmp_path, "inside")
    assert status == 0
    said = capsys.readouterr().out
    for tool in ("ss", "strace", "py-spy"):
        assert f"There is no {tool} here: it is left out." in said
    assert [*kept.points[0].runs[0].texts] == (
        ["ps"] if there("ps") else []
    )


def test_a_tool_that_fails_is_left_out() -> None:
    assert inside.printed("echo no; exit 3") == ""
    assert inside.printed("echo 'a  '") == "$ echo 'a  '\na"


def test_another_system_is_a_sentence(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(Refused, match="needs Linux"):
        inside.measure(session(tmp_path))
