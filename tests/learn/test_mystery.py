"""./learn.sh mystery: what gives each server away, and how a game goes."""

import itertools
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import psutil
import pytest

from tests.learn.conftest import Desk
from tests.marks import Patch
from tests.process import eventually
from tools.common.raw_client import GET_CLOSE, Client
from tools.learn import mystery
from tools.learn.mystery import ALIKE, ANSWERS
from tools.learn.student import alive
from tools.servers import ROOT, by_name

PATIENCE = 60.0  # seconds for what takes a moment
SEED = 11


# What gives it away ---------------------------------------------------------


def test_the_clues_have_words_for_each_sign() -> None:
    for clue in mystery.read_clues():
        assert {*clue.words} == {*clue.signs.values()}


@pytest.mark.parametrize("answer", ANSWERS)
def test_the_clues_told_lead_to_the_answer(answer: str) -> None:
    *_, (_, left) = mystery.evidence(answer)
    assert left == [answer]


@pytest.mark.parametrize(("name", "signs"), [
    ("01", "once; HTTP/1.0, closed; serial; one; poll; no asyncio"),
    ("03", "once; HTTP/1.1, kept; overlaps; come and go; poll; no asyncio"),
    ("03-pool", "once; HTTP/1.1, kept; overlaps; ready; poll; no asyncio"),
    ("06-executor", "once; HTTP/1.1, kept; overlaps; come and stay; "
     "epoll_wait; asyncio"),
    ("07", "twice; HTTP/1.1, kept; overlaps; one; io_uring_enter; "
     "no asyncio"),
])
def test_the_signs_follow_from_the_promises(name: str, signs: str) -> None:
    # Each promise is proved elsewhere, with the server running.
    assert "; ".join(mystery.signs(by_name(name))) == signs


def test_who_looks_like_another_is_never_drawn() -> None:
    expected = {"06-protocol": "06", "06-coroutines": "05"}
    assert expected.items() <= ALIKE.items()
    assert not {*ALIKE} & {*ANSWERS}


# A server that nobody recognizes -------------------------------------------


@pytest.mark.parametrize("name", [
    "01", "03-pool",
    pytest.param("07-emulated", marks=pytest.mark.thorough),
])
def test_nothing_but_its_behaviour_gives_it_away(name: str) -> None:
    with mystery.disguised(by_name(name), 0) as process:
        members = process.processes()
        for each in members:
            assert each.cmdline() == [sys.executable, "server.py"]
            assert not Path(each.cwd()).exists()
        with Client(process.wait_until_ready(), GET_CLOSE) as client:
            response = client.response()
        assert (response.status, response.get("Server")) == (200, "")
    assert eventually(lambda: not any(map(alive, members)), PATIENCE)


@pytest.mark.parametrize(("why", "missing"), [
    ("", ""), ("no io_uring", "07"),
])
def test_a_seed_names_the_same_servers(
    monkeypatch: Patch, why: str, missing: str
) -> None:
    monkeypatch.setattr(mystery, "why_no_uring", lambda: why)
    games = [mystery.drawn(seed) for seed in range(100)]
    assert {*itertools.chain(*games)} == {*ANSWERS} - {missing}
    assert games == [mystery.drawn(seed) for seed in range(100)]


@pytest.mark.parametrize(("typed", "meant"), [
    ("03-pool", "03-pool"), ("3", "03"), (" 7 ", "07"), ("6-EXECUTOR",
    "06-executor"), ("6-protocol", "06"), ("", ""), ("33", ""),
    ("threads", ""), ("07/uring", ""),
])
def test_an_answer(typed: str, meant: str) -> None:
    if meant:
        assert mystery.answer_in(typed) == meant
        return
    with pytest.raises(ValueError, match=r"No server is called .* 01, 02, "):
        mystery.answer_in(typed)


# A game ---------------------------------------------------------------------


@pytest.fixture
def game(desk: Desk, monkeypatch: Patch) -> Iterator[Desk]:
    """Requests do not wait; how signals are handled is put back."""
    monkeypatch.setattr(mystery, "DELAY", 0)
    before = {n: signal.getsignal(n) for n in mystery.ENDINGS}
    yield desk
    for number, handler in before.items():
        signal.signal(number, handler)


def gone(said: str) -> bool:
    """Is no server of a game left?"""
    pids = [int(pid) for pid in re.findall(r"as process (\d+)", said)]
    return bool(pids) and not any(map(psutil.pid_exists, pids))


def test_a_game_is_graded_and_its_first_outcome_stays(game: Desk) -> None:
    right = mystery.drawn(SEED)
    wrong = next(name for name in ANSWERS if name not in right)
    typed = f"nonsense\n{right[0]}\n\n{wrong}\n\n{right[2]}\n\n"
    said = game.run("mystery", "--seed", str(SEED), typed=typed, status=1)
    assert "2 of 3 right" in said
    assert "No server is called 'nonsense'" in said
    assert said.count("Yes: it is") == 2 and said.count("No: it is") == 1
    for name in right:
        for clue, _ in mystery.evidence(name):
            assert clue.words[clue.signs[name]] in said
    assert gone(said)
    typed = "\n\n".join(right) + "\n\n"
    said = game.run("mystery", "--seed", str(SEED), typed=typed)
    assert "your first game counts" in said
    said = game.run("report", status=1)
    assert "2/3" in said and f", seed {SEED}" in said
    assert f"round 2: it was {right[1]}" in said


def test_a_game_that_was_left_counts_as_far_as_it_went(game: Desk) -> None:
    assert gone(game.run("mystery", typed="nonsense\n", status=130))
    assert "nothing is begun" in game.run("report", status=2)
    game.run("mystery", "--seed", str(SEED), typed="01\n", status=130)
    junit = game.my / "junit.xml"
    said = game.run("report", "--json", "--junit", str(junit), status=1)
    (found,) = json.loads(said)
    assert found["trouble"] == "1 of 3 rounds were played"
    error = ElementTree.parse(junit).find(".//error")
    assert error is not None and error.get("message") == found["trouble"]


@pytest.mark.parametrize("how", ["SIGINT", "SIGHUP"])
def test_whatever_ends_it_no_server_is_left(how: str, tmp_path: Path) -> None:
    said = tmp_path / "said"
    with said.open("w") as out, subprocess.Popen(
        [sys.executable, "-m", "tools.learn", "mystery"], cwd=ROOT,
        env={**os.environ, "SEVEN_MY": str(tmp_path)}, stdout=out,
        stderr=out, stdin=subprocess.PIPE, start_new_session=True,
    ) as child:
        assert eventually(lambda: "\n> " in said.read_text(), PATIENCE)
        assert not gone(said.read_text())
        child.send_signal(getattr(signal, how))
        assert child.wait(PATIENCE) == 130
    assert gone(said.read_text())
    assert "Traceback" not in said.read_text()
