"""The player of recordings as built: its stage, charts, lines, numbers."""

import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.site.conftest import Render
from tools.data import recording
from tools.data.recording import Client, Lane, Span, most_at_once
from tools.site import race_charts, race_data, race_lines, race_stage
from tools.site.errors import SiteError

SLEEP = "time.sleep(options.delay)"
SELECT = "for key, _ in clients.selector.select({}):"
ACCEPT = "sock = accept(listener)"
WAIT = "batch = engine.wait(self.block)"
# Server -> its rings, its shelves, what stands above them; some of the lines
# that are lit, and how many threads are on one at most.
LOOKS: dict[str, tuple[int, int, str, dict[str, int]]] = {
    "01": (1, 0, "one thread",
           {"time.sleep(self.options.delay)": 1, "self.end_headers()": 1,
            "server.handle_request()": 1}),
    "02": (1, 0, "one thread",
           {SLEEP: 1, ACCEPT: 1,
            "connection.data_received(sock.recv(RECV_SIZE))": 1,
            "connection.data_sent(sock.send(connection.unsent))": 1}),
    "03": (20, 0, "20 threads", {SLEEP: 20, ACCEPT: 1}),
    "03-pool": (10, 0, "10 threads", {SLEEP: 10, ACCEPT: 1}),
    "04": (1, 0, "one thread", {SLEEP: 1, "clients.accept()": 1}),
    "05": (0, 1, "parked by one thread",
           {SELECT.format("timeout()"): 1, "clients.accept()": 1}),
    "05-threads": (20, 0, "20 timer threads beside the loop",
                   {SELECT.format("TICK"): 1, "clients.accept()": 1}),
    "06": (0, 1, "parked by one thread",
           {"await asyncio.sleep(options.delay)": 20}),
    "06-executor": (6, 1, "6 threads and a queue", {SLEEP: 6}),
    "06-protocol": (0, 1, "parked by one thread", {}),
    "07": (0, 2, "parked by 2 workers", {WAIT: 2}),
    "07-emulated": (0, 2, "parked by 2 workers", {WAIT: 2}),
}
RUNS = {
    name: recording.load(recording.REFERENCE / f"{name}.json")
    for name in LOOKS
}


@pytest.fixture(autouse=True)
def nothing_of_the_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEVEN_OWN", "none")


@pytest.fixture
def recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The recordings of 02 and 03, in a folder that a test may change."""
    folder = tmp_path / "recordings"
    for name in ("02", "03"):
        RUNS[name].save(folder)
    monkeypatch.setattr(recording, "REFERENCE", folder)
    return folder


def fence(servers: str) -> str:
    return f"```race\nservers: {servers}\ntitle: A & B <race>\n```"


def script(html: str) -> str:
    text = html.partition('<script type="application/json">')[2]
    return text.partition("</script>")[0]


# --- The stage --------------------------------------------------------------


@pytest.mark.parametrize("name", LOOKS)
def test_stage_and_lines_show_how_a_server_waits(
    name: str, render: Render
) -> None:
    html = render(fence(name))
    rings, shelves, label, lines = LOOKS[name]
    assert html.count('class="race-ring"') == rings
    assert html.count('class="race-shelf"') == shelves
    assert f">at work: {label}</span>" in html
    # Complete without a script: all dots stand in the last box.
    answered = html.partition("race-box--answered")[2].partition("<svg")[0]
    assert answered.count('class="race-dot" data-state="d"') == 20
    order = [RUNS[name].clients[int(at)].done
             for at in re.findall(r'data-slot="d(\d+)"', answered)]
    assert order == sorted(order)
    assert html.count('class="race-dot"') == 20
    assert ">20 of 20</dd>" in html
    assert "Waiting: none. At work: none. Answered: 1 to 20." in html
    found = race_stage.stage(RUNS[name])
    for at, client in enumerate(RUNS[name].clients):
        moves = found.moves[at]
        assert moves[:2] == [(0, "wq"), (client.accepted, "wa")]
        assert moves[2][0] == client.read and moves[2][1][0] in "rs"
        assert moves[-1] == (client.done, "dd")
        # Every place that the dot goes to is there, once. A ring is the
        # thread that waits for the request.
        for _, move in moves:
            assert move[0] != "r" or move[1:-1] == f"{client.lane}"
            own = "" if move.startswith("r") else str(at)
            assert html.count(f'data-slot="{move[:-1]}{own}"') == 1
    lit = {
        line.text: most_at_once(line.times)
        for line in race_lines.running(RUNS[name])
    }
    assert lines.items() <= lit.items()
    # What runs inside a library has no line of ours: not a timer's wait.
    assert all("time.sleep" not in text or text in lines for text in lit)
    assert bool(lit) == bool(lines)


def test_an_executor_has_a_queue_and_a_ring_holds_one() -> None:
    stays = []
    for its in race_stage.stage(RUNS["06-executor"]).moves:
        assert its[2][1] == "sk"
        for (here, move), (after, _) in itertools.pairwise(its):
            if move.startswith("r"):
                stays.append((move[:-1], here, after))
    # One whose response is still to be sent makes room for the next.
    assert len({place for place, _, _ in stays}) == 6 < len(stays)
    for one, two in itertools.pairwise(sorted(stays)):
        assert one[0] != two[0] or one[2] <= two[1]


# --- The fence --------------------------------------------------------------


def test_two_servers_on_one_clock(render: Render) -> None:
    html = render(fence("02, 03"))
    assert 'id="race-02-03"' in html and "data-search-exclude" in html
    # The axis is that of the longer one: the other ends at the left.
    rows = html.partition('id="race-02-03-requests-03-title"')[2]
    ends = re.findall(
        r'race-part--answering" x="([\d.]+)%"', rows.partition("</svg>")[0]
    )
    assert len(ends) == 20 and max(map(float, ends)) < 25
    threads = html.partition('id="race-02-03-threads-03-title"')[2]
    assert threads.count("data-lane=") == len(RUNS["03"].lanes)
    assert ">main</text>" in threads and ">thread 20</text>" in threads
    # What the script gets; what it makes of it is test_player.py's matter.
    data = json.loads(script(html))
    assert data["end"] == RUNS["02"].length
    assert [run["name"] for run in data["runs"]] == ["02", "03"]
    assert len(json.dumps(data)) < 20_000
    c = RUNS["02"].clients[19]
    times = (c.begun, c.accepted, c.read, c.answered, c.done)
    row = "".join(f"<td>{time / 1000:,.1f}</td>" for time in times)
    assert f'<th scope="row">20</th>{row}' in html


def test_words_are_escaped(recordings: Path, render: Render) -> None:
    machine = replace(RUNS["07"].machine, cpu="C & <CPU>")
    lanes = [Lane("</script>&<b>", 0, RUNS["07"].lanes[0].spans)] * 2
    replace(RUNS["07"], machine=machine, lanes=lanes).save(recordings)
    html = render(fence("07"))
    assert "A &amp; B &lt;race&gt;" in html
    assert "C &amp; &lt;CPU&gt;" in html
    assert "&lt;/script&gt;&amp;&lt;b&gt;" in html and "<b>" not in html
    # Nothing ends the script element early.
    assert "<" not in script(html)


def test_caption(
    recordings: Path, render: Render, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = replace(RUNS["02"], started="2000-01-02T03:04:05+00:00")
    replace(old, note="Seen with strace. More").save(recordings)
    replace(RUNS["03"], note="Seen with strace.").save(recordings)
    html = render(fence("02, 03"))
    assert html.count("Seen with strace.") == 1 and "More." in html
    assert "each request waits 0.1 s" in html
    assert "02: Recorded on 2000-01-02" in html
    # One of the reader's own takes the place of the committed one.
    mine = replace(old, started="2001-02-03T00:00:00+00:00")
    file = mine.save(tmp_path / "own" / "recordings")
    monkeypatch.setenv("SEVEN_OWN", str(tmp_path / "own"))
    html = render(fence("02, 03"))
    assert "02: Your recording on 2001-02-03" in html
    assert "03: Recorded on" in html
    # Where nothing says which, they are those in results/.
    monkeypatch.setattr(recording, "OWN", file.parent)
    monkeypatch.delenv("SEVEN_OWN")
    assert race_data.find("02") == (mine, file)


def test_recordings_that_cannot_be_played(
    recordings: Path, render: Render
) -> None:
    (recordings / "02.json").unlink()
    with pytest.raises(Exception, match=r"no recording of 02.*bench\.sh"):
        render(fence("02, 03"))
    (recordings / "02.json").write_text("{}")
    with pytest.raises(Exception, match="schema"):
        render(fence("02"))
    (recordings / "03.json").rename(recordings / "02.json")
    with pytest.raises(Exception, match="holds a recording of 03"):
        render(fence("02"))


# --- Charts -----------------------------------------------------------------


def test_what_no_eye_parts_is_one_span() -> None:
    spans = [(0, 10), (12, 20), (100, 110), (105, 130)]
    assert race_charts.together(spans, 5) == [(0, 20), (100, 130)]


# --- The line that runs -----------------------------------------------------


def test_a_changed_server_is_an_error() -> None:
    where = race_lines.Where("sleep", "work", "time.sleep(")
    good = "def work():\n    time.sleep(1)\n"
    assert race_lines.number(good, where) == 2
    for text, why in (
        (good + "    time.sleep(2)\n", "2 lines"),
        (good.replace("work", "play"), "there is no 'work'"),
        ("def work():\n    pass  # time.sleep(\n", "0 lines"),
    ):
        with pytest.raises(SiteError, match=why):
            race_lines.number(text, where)


@pytest.mark.parametrize(
    ("name", "lane", "span", "text"),
    [
        ("03-pool", 1, Span("wait", 0, 50_000),
         "while (sock := queue.get()) is not None:"),
        # Short waits are for a lock, of the GIL or of a thread's start.
        ("03-pool", 0, Span("wait", 0, 4_000), None),
        ("03-pool", 0, Span("wait", 0, 6_000), ACCEPT),
        ("02", 0, Span("wait", 0, 10), ACCEPT),  # one thread has none
        # In the middle of a request, only the delay itself is a sleep.
        ("03-pool", 1, Span("wait", 1, 5_000, 0), None),
        ("03-pool", 1, Span("wait", 1, 99_000, 0), SLEEP),
    ],
)  # fmt: skip
def test_a_wait_and_its_line(
    name: str, lane: int, span: Span, text: str | None
) -> None:
    """The first thread accepts, the second, if there is one, sleeps."""
    threads = [[Span("accept", 200, 300, 0)], [Span("wait", 0, 100_000, 0)]]
    threads[lane].append(span)
    lanes = [Lane("x", 0, tuple(its)) for its in threads]
    made = replace(
        RUNS[name], lanes=lanes[:1] if name == "02" else lanes,
        clients=[Client(0, 0, 0, 10**6, 10**6, 0, 0, 10**6, lane)],
    )
    found = race_lines.running(made)
    on = [x.text for x in found if (span.begin, span.end) in x.times]
    assert on == ([text] if text else [])


# --- Numbers ----------------------------------------------------------------


def test_numbers(render: Render) -> None:
    made = RUNS["02"]
    first = min(c.done for c in made.clients) / 1000
    ratio = made.length / RUNS["03"].length
    for word, text in (
        ("race:02.first", f"{first:,.0f}\u00a0ms"),
        ("race:02.last", f"{made.length / 1000:,.0f}\u00a0ms"),
        ("race:02.peak", "1"), ("race:03.peak", "20"),
        ("race:03-pool.busy", "10"), ("race:06.busy", "0"),
        ("race:03.threads", "21"),
        ("race:03.calls", f"{RUNS['03'].calls[-1][1]:,}"),
        ("race:02.last / race:03.last", f"{ratio:.0f}"),
    ):  # fmt: skip
        html = render(f"`#!num {word}`")
        assert re.sub("<[^>]+>", "", html).strip() == text, word
