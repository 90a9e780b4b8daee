"""The simulated kernel: it runs what is given, and does not lie."""

import json
from pathlib import Path
from typing import Any

import pytest

from tools.data import recording
from tools.learn import exercises
from tools.servers import (
    NO,
    POOL,
    ROOT,
    SERVERS,
    SKETCHES,
    YES,
    Server,
    by_name,
)
from tools.steps import show
from tools.steps.run import scenarios, shows
from tools.steps.sockets import ROOM

# 07-emulated is an engine, not a file. A fork after a wait is not simulated.
# That each server is recorded, tests/site/test_recordings.py sees to.
STEPPED = [
    each for each in SERVERS
    if not each.options and "os.fork" not in each.path.read_text()
    and (recording.REFERENCE / f"{each.name}.json").exists()
]
SKETCHED = {each.name: each for each in SKETCHES}
RULES = ROOT / "docs" / "data" / "sketches.json"


def run(server: Server, name: str) -> dict[str, Any]:
    """A server, or a sketch, with the clients of a scenario."""
    if server in SKETCHES:
        return show.traced(ROOT / server.options[0], name)
    workers = ["--workers", "1"] if server.step == 7 else [
        *(["--workers", str(server.workers)] if server.workers else [])
    ]
    return show.traced(server.path, name, workers)


def last(found: dict[str, Any]) -> float:
    """Seconds until the last client had its response."""
    assert found["error"] == ""
    return max(client[2] or 0.0 for client in found["clients"])


@pytest.mark.parametrize("each", STEPPED, ids=lambda each: each.name)
def test_it_takes_as_long_as_on_the_real_kernel(each: Server) -> None:
    real = recording.load(recording.REFERENCE / f"{each.name}.json").clients
    first = min(client.read for client in real)
    seconds = (max(client.answered for client in real) - first) / 1e6
    simulated = last(run(each, "twenty"))
    if each.lessons["threads"] == NO:  # to start a thread takes time
        assert simulated <= seconds
    else:
        assert simulated == pytest.approx(seconds, rel=0.1)


@pytest.mark.parametrize("each", SKETCHES, ids=lambda each: each.name)
def test_each_client_is_accepted_read_answered(each: Server) -> None:
    found = run(each, "three")
    orders: dict[int, list[str]] = {}
    whose: dict[tuple[int, int], int] = {}
    process = {0: 0}
    for kind, _, thread, *rest in found["trace"]:
        if kind == "start":
            process[rest[0]] = rest[1]
        if kind == "call" and rest[0] == "accept" and len(rest) == 4:
            whose[process[thread], rest[2]] = rest[3]
            orders.setdefault(rest[3], []).append("accept")
        elif kind == "call" and rest[0] in ("recv", "send", "close"):
            client = whose.get((process[thread], rest[1]))
            if client is not None:
                orders[client].append(rest[0])
    calls = ["accept", "recv", "send", "close"]
    assert orders == {0: calls, 1: calls, 2: calls}
    if each.step < 7:  # one accept queue: first come, first served
        assert [*orders] == [0, 1, 2]


def verdicts(server: Server) -> dict[str, str]:
    """The table of lessons, as far as it is about waiting and threads."""
    alone, kept = run(server, "silent")["clients"][1], run(server, "again")
    begun = {
        name: sum(row[0] == "start" for row in run(server, name)["trace"])
        for name in ("three", "twenty")
    }
    took = last(run(server, "twenty"))
    few = (0.1 < took < 2) and POOL  # more than one, not all of them
    return {
        "silent": YES if alone[2] < 1 else NO,
        "overlap": few or (YES if took == pytest.approx(0.1) else NO),
        "threads": YES if begun["three"] == begun["twenty"] else NO,
        "keep_alive": YES if kept["clients"][0][2] > 0.5 else NO,
    }


@pytest.mark.thorough
@pytest.mark.parametrize("each", STEPPED, ids=lambda each: each.name)
def test_the_table_of_lessons(each: Server) -> None:
    real = {name: each.lessons[name] for name in verdicts(each)}
    if each.lessons["silent"] == POOL:
        real["silent"] = YES  # two clients are no more than its threads
    if each.lessons["threads"] == POOL:
        real["threads"] = NO  # they start when there is work
    assert verdicts(each) == real


@pytest.mark.parametrize("each", SKETCHES, ids=lambda each: each.name)
def test_what_a_sketch_cannot_do(each: Server) -> None:
    found = {"keep-11": run(each, "again")["clients"][0][2] > 0.5}
    state, first, _, got = run(each, "pieces")["clients"][0]
    found["pieces"] = state == "closed" and got > 0 and first > 0.25
    found["spare"] = run(each, "silent")["clients"][1][2] < 1
    if each.step > 1:  # what http.server does wrong, it prints
        gone = run(each, "reset")
        crashes = [row for row in gone["trace"] if row[0] == "crash"]
        found["reset"] = not gone["error"] and not crashes
    rules = json.loads(RULES.read_text())["rules"]
    assert found == {
        rule: "passed" in rules[rule][each.name] for rule in found
    }


@pytest.mark.parametrize("each", STEPPED, ids=lambda each: each.name)
def test_the_order_is_the_real_one(each: Server) -> None:
    real = recording.load(recording.REFERENCE / f"{each.name}.json")
    calls = orders(run(each, "twenty"))
    spans = [(begin, end) for _, begin, end in calls.values()]
    assert recording.most_at_once(spans) == real.peak
    # Where one thread does all and waits for one at a time, or accepts
    # all: in which order each call comes to the clients.
    if len(real.lanes) == 1:
        for at, name in enumerate(("accepted", "read", "answered")):
            order = [getattr(client, name) for client in real.clients]
            ours = [calls[which][at] for which in range(20)]
            assert rank(order) == rank(ours), name


def orders(found: dict[str, Any]) -> dict[int, list[int]]:
    """Of each client, the row in which it is accepted, read, answered."""
    whose: dict[tuple[int, int], int] = {}
    process, calls = {0: 0}, {}
    for at, (kind, _, thread, *rest) in enumerate(found["trace"]):
        if kind == "start":
            process[rest[0]] = rest[1]
        if kind != "call" or len(rest) < 2:
            continue
        name, fd, *result = rest
        client = whose.get((process[thread], fd), -1)
        if name == "accept" and len(result) == 2:
            whose[process[thread], result[0]] = result[1]
            calls[result[1]] = [at]
        elif (name, len(calls.get(client, ()))) in (("recv", 1), ("send", 2)):
            calls[client].append(at)
    return calls


def rank(moments: list[int]) -> list[int]:
    """Which is the first, which the second, and so on."""
    return sorted(range(len(moments)), key=moments.__getitem__)


SERVER = """
import socket
listener = socket.create_server(("", 8000))
while True:
    connection, _ = listener.accept()
    {}
    connection.close()
"""


@pytest.mark.parametrize(("line", "client", "state", "got", "seconds"), [
    # More than a connection holds waits for its reader.
    ("connection.sendall(bytes(200_000))", {"rate": 500_000}, "closed",
     200_000, 0.3),
    ("connection.sendall(bytes(9))", {}, "closed", 9, 0.0),
    # To close with bytes unread is a reset (RFC 2525, section 2.17).
    ("", {"send": [[0, "GET"]]}, "reset", 0, None),
    ("connection.recv(2)", {"send": [[0.2, "GET"]]}, "reset", 0, None),
    ("connection.recv(3)", {"send": [[0.2, "GET"]]}, "closed", 0, None),
    ("connection.settimeout(0.5); connection.recv(1)", {"close": 0.2},
     "closed", 0, None),
])
def test_a_connection(
    tmp_path: Path, line: str, client: dict[str, Any], state: str, got: int,
    seconds: float | None,
) -> None:
    file, clients = tmp_path / "mine.py", tmp_path / "clients.json"
    file.write_text(SERVER.format(line))
    clients.write_text(json.dumps({"clients": [client]}))
    found = show.traced(file, str(clients))
    assert (found["error"], found["clients"]) == ("", [
        [state, 0.0 if got else None, seconds, got]
    ])
    blocked = {row[3] for row in found["trace"] if row[0] == "block"}
    assert ("send" in blocked) == (got > ROOM)


@pytest.mark.parametrize("name", ["02-sketch", "04-sketch", "05-sketch"])
def test_a_reset_ends_a_sketch(name: str) -> None:
    error = run(SKETCHED[name], "reset")["error"]
    assert "line " in error and "Error" in error


@pytest.mark.parametrize(("points", "asked"), [
    ((), [[3, 0, "line", 4, "line 3", "line 2"],
          [6, 0, "ready", 7, "none", "descriptor 3, 4"]]),
    (["block sleep 1: served", "block sleep 2: served"],
     [[3, 1, "served", 5, "client 2", "client 1"],
      [6, 0, "ready", 7, "none", "descriptor 3, 4"]]),
])
def test_what_is_asked(points: list[str], asked: list[Any]) -> None:
    trace = [
        ["client", 0, -1, 0, "receive", 9], ["line", 0, 0, 2],
        ["block", 0, 0, "sleep"],
        ["line", 0, 0, 3], ["client", 1, -1, 1, "receive", 9],
        ["block", 1, 0, "select"], ["ready", 2, 0, []],
        ["block", 2, 0, "lock"], ["ready", 2, 0, [3, 4]],
    ]
    assert show.asks(trace, points) == asked


@pytest.mark.thorough
@pytest.mark.parametrize("each", SKETCHES, ids=lambda each: each.name)
def test_the_same_trace_again(each: Server) -> None:
    assert run(each, "twenty") == run(each, "twenty")


@pytest.mark.parametrize(("text", "says"), [
    ("x = (", "line 1 is not Python"),
    ("while True:\n    pass", "still running in line"),
    ("1 / 0", "line 1: ZeroDivisionError"),
    ("import nothing_like_it", "line 1: ModuleNotFoundError"),
    ("import socket\nsocket.create_connection(('example.com', 80))",
     "it calls connect, which is not simulated"),
    ("import socket\nsocket.create_server(('', 1)).accept()\n"
     "import time\ntime.sleep(10000)", "nothing will happen"),
    ("open('a')", "line 1: it opens a file"),
    ("import sys\nsys.exit('no')", "it ends: no"),
])
def test_what_cannot_be_stepped(
    tmp_path: Path, text: str, says: str
) -> None:
    file = tmp_path / "mine.py"
    file.write_text(text)
    error = show.traced(file, "one")["error"]
    assert says in error and "\n" not in error


def test_what_never_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "mine.py"
    file.write_text("sum(iter(int, 1))")
    monkeypatch.setattr(show, "SECONDS", 0.5)
    with pytest.raises(show.StepError, match=r"mine\.py did not end"):
        show.traced(file, "one")


def test_threads_take_turns(tmp_path: Path) -> None:
    file = tmp_path / "mine.py"
    file.write_text(
        "import threading\ndef count():\n    for n in range(9):\n"
        "        n += 1\nfor n in range(2):\n"
        "    threading.Thread(target=count).start()\n"
    )
    kinds = [row[0] for row in show.traced(file, "one", interval=3)["trace"]]
    assert kinds.count("switch") > 4
    assert "switch" not in [
        row[0] for row in show.traced(file, "one")["trace"]
    ]


@pytest.mark.thorough
@pytest.mark.parametrize("each", SKETCHES, ids=lambda each: each.name)
def test_traces_are_small(each: Server) -> None:
    data = show.facts(ROOT / each.options[0])
    for found in data["scenarios"]:
        assert len(json.dumps(found["trace"], separators=(",", ":"))) < 15_000


@pytest.mark.parametrize("name", [
    name for name, plan in scenarios().items() if "tests" in plan
])
def test_a_failure_that_a_scenario_shows(name: str, tmp_path: Path) -> None:
    for test in scenarios()[name]["tests"]:
        number, _, function = test.partition("/")
        exercise = exercises.by_id(number)
        assert f"def {function}(" in exercise.tests.read_text()
        assert shows(test) == name
        for beside, text in exercise.companions().items():
            (tmp_path / beside).write_text(text)
        file = tmp_path / "server.py"
        file.write_text(exercise.starter.read_text())
        assert show.traced(file, name)["trace"]
    assert shows("02.1/test_nothing") == ""


@pytest.mark.thorough
@pytest.mark.parametrize("which", ["starter", "solution"])
@pytest.mark.parametrize(
    "exercise", exercises.everything(), ids=lambda each: each.id
)
def test_exercises_are_stepped(
    exercise: exercises.Exercise, which: str, tmp_path: Path
) -> None:
    for name, text in exercise.companions().items():
        (tmp_path / name).write_text(text)
    file = tmp_path / "server.py"
    file.write_text(getattr(exercise, which).read_text())
    found = show.traced(file, "three")
    if exercise.id == "05.2" and which == "starter":
        assert "never wait?" in found["error"]  # it polls, which is its fault
    elif exercise.like and by_name(exercise.like).step < 7:
        assert found["error"] == ""
    else:
        assert "Traceback" not in found["error"]
