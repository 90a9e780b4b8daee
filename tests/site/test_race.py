"""The player of recordings as built: its stage, charts, lines, numbers."""

import html as htmllib
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.site.conftest import Render
from tools.data import recording
from tools.data.recording import Client, Lane, Span, most_at_once
from tools.servers import by_name
from tools.site import race, race_charts, race_data, race_lines, race_stage
from tools.site import source as pieces
from tools.site.errors import SiteError
from tools.site.race_stage import Move

# Server -> what its stage shows at a glance, its rings, its shelves.
STAGES = {
    "01": ("one", 1, 0), "02": ("one", 1, 0), "03": ("threads", 20, 0),
    "03-pool": ("threads", 10, 0), "04": ("one", 1, 0),
    "05": ("loop", 0, 1), "05-threads": ("timers", 20, 0),
    "06": ("loop", 0, 1), "06-executor": ("queue", 6, 1),
    "06-protocol": ("loop", 0, 1),
    "07": ("workers", 0, 2), "07-emulated": ("workers", 0, 2),
}  # fmt: skip
RUNS = {
    name: recording.load(recording.REFERENCE / f"{name}.json")
    for name in STAGES
}


@pytest.fixture
def recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recording of each server; the reader has made none."""
    folder = tmp_path / "recordings"
    for made in RUNS.values():
        made.save(folder)
    monkeypatch.setattr(recording, "REFERENCE", folder)
    monkeypatch.setenv("SEVEN_OWN", "none")
    return folder


def fence(servers: str) -> str:
    return f"```race\nservers: {servers}\ntitle: A & B <race>\n```"


def script(html: str) -> str:
    text = html.partition('<script type="application/json">')[2]
    return text.partition("</script>")[0]


# --- The stage --------------------------------------------------------------


@pytest.mark.parametrize("name", STAGES)
def test_the_middle_box_shows_how_a_server_waits(
    name: str, recordings: Path, render: Render
) -> None:
    html = render(fence(name))
    family, rings, shelves = STAGES[name]
    assert f'data-family="{family}"' in html
    assert len(re.findall(r'class="race-ring"', html)) == rings
    assert len(re.findall(r'class="race-shelf"', html)) == shelves
    # Complete without a script: all dots stand in the last box.
    answered = html.partition("race-box--answered")[2].partition("<svg")[0]
    assert answered.count('class="race-dot" data-state="d"') == 20
    assert html.count('class="race-dot"') == 20
    assert ">20 of 20</dd>" in html
    assert f">{RUNS[name].calls[-1][1]:,}</dd>" in html
    assert "Waiting: none. At work: none. Answered: 1 to 20." in html
    chart = html.partition(f'-threads-{name}-title"')[2]
    assert chart.count("data-lane=") == len(RUNS[name].lanes)
    found = race_stage.stage(RUNS[name])
    parked = sorted(itertools.chain(*found.groups))
    assert parked == (list(range(20)) if found.groups else [])
    for at, client in enumerate(RUNS[name].clients):
        moves = found.moves[at]
        assert [m.at for m in moves] == sorted(m.at for m in moves)
        assert moves[0] == Move(0, "w", "q")
        assert moves[1] == Move(client.accepted, "w", "a")
        assert moves[2].at == client.read and moves[2].place != "w"
        assert moves[-1] == Move(client.done, "d", "d")
        assert re.fullmatch("k+s+", "".join(m.state for m in moves[2:-1]))
        # Every place that the dot goes to is there, once.
        for move in moves:
            own = "" if move.place.startswith("r") else str(at)
            assert html.count(f'data-slot="{move.place}{own}"') == 1
    assert len(found.moves) == 20


def test_a_ring_is_the_thread_that_waits_for_the_request() -> None:
    made = RUNS["03-pool"]
    moves = race_stage.stage(made).moves
    for client, its in zip(made.clients, moves, strict=True):
        ring = f"r{client.lane}"
        assert [m.place for m in its] == ["w", "w", ring, ring, "d"]


def test_timers_are_told_from_threads_that_serve() -> None:
    made = race_stage.stage(RUNS["05-threads"])
    assert made.label == "20 timer threads beside the loop"
    assert race_stage.stage(RUNS["03"]).label == "20 threads"
    # A timer of a process among several is one as well; one thread that
    # is none makes the box a box of threads.
    lanes = RUNS["05-threads"].lanes
    several = [replace(x, name=f"worker 1, {x.name}") for x in lanes]
    mixed = [*lanes[:-1], replace(lanes[-1], name="thread 20")]
    for found, family in ((several, "timers"), (mixed, "threads")):
        changed = replace(RUNS["05-threads"], lanes=found)
        assert race_stage.stage(changed).family == family


def test_an_executor_has_a_queue_and_a_ring_holds_one() -> None:
    stays = []
    for its in race_stage.stage(RUNS["06-executor"]).moves:
        places = [place for place, _ in itertools.groupby(
            move.place for move in its
        )]  # fmt: skip
        assert places[:2] == ["w", "s"] and places[2].startswith("r")
        for here, after in itertools.pairwise(its):
            if here.place.startswith("r"):
                stays.append((here.place, here.at, after.at))
    # Who waits for its answer to be sent makes room for the next.
    assert sum(place == "r1" for place, _, _ in stays) > 1
    for one, two in itertools.pairwise(sorted(stays)):
        assert one[0] != two[0] or one[2] <= two[1]


def test_a_clock_that_is_not_in_order() -> None:
    made = RUNS["02"]
    early = replace(made.clients[0], accepted=900_000, read=10)
    made = replace(made, clients=[early, *made.clients[1:]])
    moves = race_stage.stage(made).moves[0]
    assert [m.at for m in moves] == sorted(m.at for m in moves)


# --- The fence --------------------------------------------------------------


def test_two_servers_on_one_clock(recordings: Path, render: Render) -> None:
    html = render(fence("02, 03"))
    assert 'id="race-02-03"' in html and "data-search-exclude" in html
    assert html.count('class="race-run"') == 2
    assert html.count('<svg class="seven-svg seven-svg--race') == 4
    # The axis is that of the longer one: the other ends at the left.
    rows = html.partition('id="race-02-03-requests-03-title"')[2]
    end = RUNS["03"].length / (RUNS["02"].length * race.MARGIN)
    ends = [
        float(x) + float(w)
        for x, w in re.findall(
            r'race-part--answering" x="([\d.]+)%" width="([\d.]+)%"',
            rows.partition("</svg>")[0],
        )
    ]
    assert len(ends) == 20
    assert max(ends) == pytest.approx(100 * end, abs=0.01)
    threads = html.partition('id="race-02-03-threads-03-title"')[2]
    for kind in ("accept", "read", "wait", "write"):
        assert f"race-span--{kind}" in threads
    assert ">main</text>" in threads and ">thread 20</text>" in threads
    # What the script gets; what it makes of it is test_player.py's matter.
    data = json.loads(script(html))
    assert data["end"] == RUNS["02"].length
    assert [run["name"] for run in data["runs"]] == ["02", "03"]
    assert len(json.dumps(data)) < 20_000


def test_words_are_escaped(recordings: Path, render: Render) -> None:
    machine = replace(RUNS["07"].machine, cpu="C & <CPU>")
    note = "Seen from the clients."
    replace(RUNS["07"], machine=machine, note=note).save(recordings)
    html = render(fence("07"))
    assert "A &amp; B &lt;race&gt;" in html
    assert "C &amp; &lt;CPU&gt;" in html
    assert note in html
    assert race.SLOWER in html  # no note has said so
    # Nothing ends the script element early.
    server = replace(by_name("06-protocol"), name="</script>&<b>")
    text = race._data([race.Run(server, RUNS["06-protocol"], Path())], 1)
    assert "<" not in text and "&" not in text and "<" not in script(html)
    assert json.loads(text)["runs"][0]["name"] == server.name


def test_caption(
    recordings: Path, render: Render, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    old = replace(RUNS["02"], started="2000-01-02T03:04:05+00:00", repeats=5)
    replace(old, note="Seen with strace. More").save(recordings)
    replace(RUNS["03"], note="Seen with strace.").save(recordings)
    html = render(fence("02, 03"))
    assert html.count("Seen with strace.") == 1
    assert "More." in html
    assert race.SLOWER not in html
    assert "each request waits 0.1 s" in html
    assert "02: Recorded on 2000-01-02" in html
    assert "the median of 5 by its length" in html
    assert "02.trace.json" not in html and race.PERFETTO not in html
    (recordings / "02.trace.json").write_text("[]")
    html = render(fence("02"))
    assert "02.trace.json" in html and f'href="{race.PERFETTO}"' in html
    # One of the reader's own takes the place of the committed one.
    monkeypatch.setenv("SEVEN_OWN", str(tmp_path / "own"))
    mine = replace(old, started="2001-02-03T00:00:00+00:00")
    file = mine.save(tmp_path / "own" / "recordings")
    html = render(fence("02, 03"))
    assert "02: Your recording on 2001-02-03" in html
    assert "03: Recorded on" in html
    # Where nobody says which, they are those in results/.
    monkeypatch.setattr(recording, "OWN", file.parent)
    monkeypatch.delenv("SEVEN_OWN")
    assert race_data.find("02") == (mine, file)


def test_table_holds_every_client(recordings: Path, render: Render) -> None:
    html = render(fence("02"))
    table = html.partition("<tbody>")[2].partition("</tbody>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", table)
    assert len(rows) == 20
    last = RUNS["02"].clients[19]
    times = (last.begun, last.accepted, last.read, last.answered, last.done)
    assert re.findall(r">([\d.,]+)</t[hd]>", rows[19]) == [
        "20", *(f"{time / 1000:,.1f}" for time in times),
    ]  # fmt: skip


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


# --- Steps and charts -------------------------------------------------------


@pytest.mark.parametrize(
    ("times", "steps"),
    [
        ([0, 1, 2, 500, 505, 509, 900], [0, 2, 509, 900, 1000]),
        # No step swallows everything.
        (range(0, 1001, 5), [0, *range(50, 1000, 55), 1000]),
    ],
    ids=["close together", "no end"],
)
def test_events_close_together_are_one_step(
    times: list[int], steps: list[int]
) -> None:
    moves = [Move(at, "w", "q") for at in times]
    assert race.steps([race_stage.Stage([], [], [moves])], 1000) == steps


def test_what_no_eye_parts_is_one_span() -> None:
    spans = [(0, 10), (12, 20), (100, 110), (105, 130)]
    assert race_charts.together(spans, 5) == [(0, 20), (100, 130)]
    assert race_charts.together(spans, 1) == [(0, 10), (12, 20), (100, 130)]


# --- The line that runs -----------------------------------------------------


def test_a_changed_server_is_an_error() -> None:
    where = race_lines.Where("wait", "any", "any", "work", "time.sleep(")
    good = "def work():\n    time.sleep(1)\n"
    assert race_lines.number(good, where) == 2
    for text, why in (
        (good.replace("sleep", "nap"), "0 lines"),
        (good + "    time.sleep(2)\n", "2 lines"),
        (good.replace("work", "play"), "there is no 'work'"),
        ("def work():\n    pass  # time.sleep(\n", "0 lines"),
    ):
        with pytest.raises(SiteError, match=why):
            race_lines.number(text, where)


SLEEP = "time.sleep(options.delay)"
SELECT = "for key, _ in clients.selector.select({}):"
ACCEPT = "sock = accept(listener)"
LIT = {  # server -> its lines, and how many threads are on one at most
    # The head and the page of http.server are two lines.
    "01": {"time.sleep(self.options.delay)": 1, "self.end_headers()": 1,
           "self.wfile.write(PAGE)": 1, "server.handle_request()": 1},
    "02": {SLEEP: 1, ACCEPT: 1,
           "connection.data_received(sock.recv(RECV_SIZE))": 1,
           "connection.data_sent(sock.send(connection.unsent))": 1},
    "03": {SLEEP: 20, ACCEPT: 1},
    "03-pool": {SLEEP: 10, ACCEPT: 1},
    "04": {SLEEP: 1, "clients.accept()": 1},
    "05-threads": {SELECT.format("TICK"): 1, "clients.accept()": 1},
    "05": {SELECT.format("timeout()"): 1, "clients.accept()": 1},
    "06": {"await asyncio.sleep(options.delay)": 20},
    "06-executor": {SLEEP: 6},
    "06-protocol": {},
    "07": {"batch = engine.wait(self.block)": 2},
    "07-emulated": {"batch = engine.wait(self.block)": 2},
}  # fmt: skip


@pytest.mark.parametrize("name", LIT)
def test_the_lines_that_run(name: str) -> None:
    lines = race_lines.running(RUNS[name])
    found = {line.text: most_at_once(line.times) for line in lines}
    assert LIT[name].items() <= found.items()
    # What runs inside a library has no line of ours: not a timer's wait.
    sleeps = any("time.sleep" in text for text in found)
    assert sleeps == any("time.sleep" in text for text in LIT[name])
    assert bool(found) == bool(LIT[name])


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


def test_shown_lines_say_where_they_are_from(render: Render) -> None:
    name = "04_selectors/clients.py"
    html = render(
        f"```source\nfile: {name}\nname: Clients, Client\n```"
    )
    assert f'<code data-file="{name}">' in html
    block = html.partition("<code")[2].partition("</code>")[0]
    block = block.partition(">")[2]
    lines = pieces.read(name).splitlines()
    marked = re.findall(r'<span data-line="(\d+)">(.*?\n)</span>', block)
    assert len(marked) > 30
    for number, line in marked:
        text = htmllib.unescape(re.sub("<[^>]+>", "", line)).rstrip("\n")
        assert lines[int(number) - 1] == text, number
    # What is copied is the code and nothing else.
    plain = htmllib.unescape(re.sub("<[^>]+>", "", block))
    assert "\n\n\nclass Client:" in plain


# --- Numbers ----------------------------------------------------------------


def test_numbers(recordings: Path, render: Render) -> None:
    def shown(word: str) -> str:
        return re.sub("<[^>]+>", "", render(f"`#!num {word}`")).strip()

    made = RUNS["02"]
    first = min(c.done for c in made.clients) / 1000
    for word, text in (
        ("race:02.first", f"{first:,.0f}\u00a0ms"),
        ("race:02.last", f"{made.length / 1000:,.0f}\u00a0ms"),
        ("race:02.peak", "1"), ("race:03.peak", "20"),
        ("race:03-pool.busy", "10"), ("race:06.busy", "0"),
        ("race:03.threads", "21"),
        ("race:03.calls", f"{RUNS['03'].calls[-1][1]:,}"),
    ):
        assert shown(word) == text, word
    ratio = made.length / RUNS["03"].length
    assert shown("race:02.last / race:03.last") == f"{ratio:.0f}"
