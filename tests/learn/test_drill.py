"""The drill: its answers are what the servers do, its sheets repeat."""

import json
import os
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from tests.learn.conftest import Desk
from tools.bench import load, server
from tools.learn import drill
from tools.learn.drill import Question
from tools.model.model import Shape
from tools.servers import ROOT, by_name
from tools.steps import show

SECONDS = 2.5  # of a load
BUSY = 0.1  # of a core, for others
STEP = 2e-8  # seconds of a step of --compute, or so
PLAIN = drill.questions(1, 400)


def test_every_step_has_questions() -> None:
    for step in range(1, 8):
        found = drill.questions(7, 40, step)
        assert len({each.text for each in found}) > 4
    assert {each.step for each in PLAIN} == set(range(1, 8))
    assert all(each.reason.count("\n") == 1 for each in PLAIN)


@pytest.mark.parametrize("each", PLAIN[:40], ids=lambda each: each.text[:20])
def test_the_reason_ends_with_the_answer(each: Question) -> None:
    last = each.reason.rpartition("= ")[2].replace(",", "").split("/")[0]
    number = float("".join(c for c in last.split(";")[0] if c in "0123456789."
                           ).rstrip("."))
    assert each.right(number)
    assert not each.right(1.3 * number) and not each.right(0.7 * number)


@pytest.mark.parametrize(("name", "clients", "options", "seconds"), [
    ("02", 5, [], 0.5), ("04", 20, [], 2.0),
    ("03-pool", 20, ["--workers", "4"], 0.5),
    ("03-pool", 2, ["--workers", "4"], 0.1),
    ("05", 30, [], 0.1), ("06", 30, [], 0.1),
])
def test_servers_do_as_the_drill_says(
    tmp_path: Path, name: str, clients: int, options: list[str],
    seconds: float,
) -> None:
    """On the simulated kernel, where the clock is set and nothing is busy."""
    plan = tmp_path / "clients.json"
    request = [[0.0, "GET / HTTP/1.0\r\n\r\n"]]
    plan.write_text(json.dumps({"clients": [{"send": request}] * clients}))
    words = ["--delay", "0.1", *options]
    found = show.traced(by_name(name).path, str(plan), words)
    last = max(each[2] for each in found["clients"])
    assert last == pytest.approx(seconds, rel=0.05)
    lessons = by_name(name).lessons
    size = int(options[1]) if options else lessons["overlap"] == "no"
    rate = drill.rate(Shape(int(size)), 100, 0, clients)
    assert clients / last == pytest.approx(rate, rel=drill.TOLERANCE)


def how_many(each: Question) -> int:
    """Requests that take a second, or so long that the first wait is lost
    in them: nobody is served in it, as long as the core is not full yet.
    """
    assert each.tried
    *_, wait, compute, _ = each.tried
    if compute in drill.HEAVY:
        return round(each.answer * max(1, 20 * wait / 1000))
    # Whole rounds: all clients begin at the same moment and stay in step.
    together = round(each.answer * (wait + compute) / 1000)
    return max(1, round(each.answer / together)) * together


def measured(each: Question) -> float:
    """Requests per second of the server of a question.

    As if a request had computed for as long as the question says: a machine
    does not keep its speed, but tells what CPU time a request has taken.
    """
    assert each.tried
    name, options, wait, compute, clients = each.tried
    options = (*options, "--compute", f"{compute / 1000 / STEP:.0f}")
    number = how_many(each)
    with server.start(by_name(name), wait / 1000, options) as running:
        before = running.cpu()
        done = subprocess.run(
            [*load.PROGRAMS["python"], "-n", f"{number}",
             "-c", f"{min(clients, number)}", running.url],
            cwd=ROOT, capture_output=True, text=True, check=True,
        )
        spent = (running.cpu() - before) / number
    found = load.read("python", done.stdout, late=False)
    assert not found.error and found.requests == number
    assert found.requests_per_second
    full = compute in drill.HEAVY  # of the core
    return found.requests_per_second * (1000 * spent / compute if full else 1)


def others() -> float:
    """CPU seconds of this machine that we have not spent."""
    found = psutil.cpu_times()
    stolen = getattr(found, "steal", 0.0)
    return found.user + found.system + stolen - sum(os.times()[:4])


@pytest.mark.thorough
def test_real_servers_agree() -> None:
    """Twenty answers, within a fifth, where nothing else runs."""
    drills = [
        each for each in PLAIN
        if each.tried and how_many(each) < SECONDS * each.answer
    ][:20]
    assert len({each.tried[0] for each in drills if each.tried}) >= 4
    before, begun, apart = others(), time.monotonic(), {}
    for each in drills:
        apart[each.text] = measured(each) / each.answer
        if others() - before > BUSY * (time.monotonic() - begun):
            pytest.skip("other programs need this machine's CPUs")
    wrong = {text: at for text, at in apart.items() if abs(at - 1) > 0.2}
    assert not wrong


def test_a_sheet(desk: Desk) -> None:
    said = desk.run("drill", "--seed", "7", "--print", "20")
    assert said == desk.run("drill", "--seed", "7", "--print", "20")
    assert said != desk.run("drill", "--seed", "8", "--print", "20")
    asked, _, solved = said.partition("\f")
    assert "\n20. " in asked and "\n20. " in solved
    assert "**" not in asked
    said = desk.run("drill", "--print", "0", status=2)
    assert "a sheet has 1 to 200 questions" in said


def test_five_in_a_row(desk: Desk) -> None:
    found = drill.questions(3, 7, 5)
    typed = [f"{each.answer}" for each in found]
    typed[1] = f"much\n{2 * found[1].answer}"
    lines = "\n".join(typed)
    said = desk.run("drill", "--seed", "3", "--step", "5", typed=lines)
    assert said.count("Right: ") == 6 and said.count("No: ") == 1
    assert "Type a number" in said and said.endswith("row: passed.\n")
    lines = "\n".join(typed[:3])
    desk.run("drill", "--seed", "3", "--step", "5", typed=lines, status=1)
