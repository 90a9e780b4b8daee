"""The simulated kernel: it runs what is given, and does not lie."""

import json
import time
from pathlib import Path
from typing import Any

import pytest

from tools.data import recording
from tools.learn import exercises
from tools.servers import ROOT, SERVERS, SKETCHES, Server, by_name
from tools.steps import show
from tools.steps.sockets import ROOM

SKETCHED = {each.name: each for each in SKETCHES}


def run(server: Server, name: str) -> dict[str, Any]:
    """A server, or a sketch, with the clients of a scenario."""
    if server in SKETCHES:
        return show.traced(ROOT / server.options[0], name)
    workers = ["--workers", "1"] if server.step == 7 else []
    return show.traced(server.path, name, workers)


def last(found: dict[str, Any]) -> float:
    """Seconds until the last client had its response."""
    assert found["error"] == ""
    return max(client[2] or 0.0 for client in found["clients"])


@pytest.mark.parametrize("each", SERVERS, ids=lambda each: each.name)
def test_it_takes_as_long_as_on_the_real_kernel(each: Server) -> None:
    if "emulated" in each.name:
        pytest.skip("an engine, not a file: 07 is stepped over it")
    real = recording.load(recording.REFERENCE / f"{each.name}.json").clients
    first = min(client.read for client in real)
    seconds = (max(client.answered for client in real) - first) / 1e6
    simulated = last(run(each, "twenty"))
    if each.name in ("03", "05-threads"):  # to start a thread takes time
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


@pytest.mark.parametrize(("name", "clients", "seconds"), [
    ("01-sketch", "silent", 1.1), ("02-sketch", "silent", 1.2),
    ("03-sketch", "silent", 0.15), ("04-sketch", "silent", 0.15),
    ("05-sketch", "silent", 0.15), ("06-sketch", "silent", 0.15),
    ("07-sketch", "silent", 0.15), ("02-sketch", "twenty", 2.0),
    ("03-sketch", "twenty", 0.1), ("04-sketch", "twenty", 2.0),
    ("05-sketch", "twenty", 0.1), ("06-sketch", "twenty", 0.1),
    ("07-sketch", "twenty", 0.1),
])
def test_the_lessons(name: str, clients: str, seconds: float) -> None:
    found = run(SKETCHED[name], clients)
    assert last(found) == pytest.approx(seconds, abs=1e-4)


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
    begin = time.monotonic()
    with pytest.raises(show.StepError, match=r"mine\.py did not end"):
        show.traced(file, "one")
    assert time.monotonic() - begin < show.SECONDS * 20


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
