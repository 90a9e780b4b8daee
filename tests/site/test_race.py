"""The player of recordings as built: its stage, charts, lines, numbers."""

import html as htmllib
import itertools
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from tests.site import race_sample
from tests.site.conftest import Render
from tools.data import recording
from tools.data.recording import Client, Lane, Recording, Span
from tools.servers import SERVERS, Server, by_name
from tools.site import race, race_charts, race_data, race_lines, race_stage
from tools.site import source as pieces
from tools.site.errors import SiteError
from tools.site.race_stage import Move

FAMILIES = {
    "01": "one", "02": "one", "03": "threads", "03-pool": "threads",
    "04": "one", "05": "timers", "05-heap": "loop", "06": "loop",
    "06-executor": "queue", "06-protocol": "loop", "07": "workers",
    "07-emulated": "workers",
}  # fmt: skip
RINGS = {"one": 1, "03": 20, "03-pool": 10, "05": 20, "06-executor": 6}
EVERYBODY = {made.server: made for made in race_sample.everybody()}


@pytest.fixture
def recordings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recording of each server; the reader has made none."""
    folder = race_sample.save(tmp_path / "recordings")
    monkeypatch.setenv("SEVEN_RECORDINGS", str(folder))
    monkeypatch.setenv("SEVEN_OWN", "none")
    return folder


def fence(servers: str, more: str = "") -> str:
    return f"```race\nservers: {servers}\ntitle: A & B <race>\n{more}```"


def inlined(html: str) -> dict[str, object]:
    text = html.partition('<script type="application/json">')[2]
    data: dict[str, object] = json.loads(text.partition("</script>")[0])
    return data


# --- The stage --------------------------------------------------------------


@pytest.mark.parametrize("name", EVERYBODY)
def test_the_middle_box_shows_how_a_server_waits(name: str) -> None:
    made = race_stage.stage(EVERYBODY[name])
    family = FAMILIES[name]
    assert made.family == family
    assert len(made.rings) == RINGS.get(name, RINGS.get(family, 0))
    parked = sorted(c for group in made.groups for c in group)
    assert len(made.groups) == {"loop": 1, "queue": 1, "workers": 2}.get(
        family, 0
    )
    assert parked == (list(range(20)) if made.groups else [])


@pytest.mark.parametrize("name", FAMILIES)
def test_the_committed_recordings_have_the_same_shape(name: str) -> None:
    file = recording.REFERENCE / f"{name}.json"
    made = race_stage.stage(race_data.load(file, name))
    assert made.family == FAMILIES[name]
    if name in RINGS:
        assert len(made.rings) == RINGS[name]


@pytest.mark.parametrize("name", EVERYBODY)
def test_every_dot_goes_from_waiting_to_answered(name: str) -> None:
    made = EVERYBODY[name]
    for client, moves in zip(
        made.clients, race_stage.stage(made).moves, strict=True
    ):
        assert [m.at for m in moves] == sorted(m.at for m in moves)
        assert moves[0] == Move(0, "w", "q")
        assert moves[1] == Move(client.accepted, "w", "a")
        assert moves[2].at == client.read and moves[2].place != "w"
        assert moves[-1] == Move(client.done, "d", "d")
        assert "".join(m.state for m in moves[2:-1]).strip("k").strip(
            "s"
        ) == ""


def test_a_ring_is_the_thread_that_waits_for_the_request() -> None:
    moves = race_stage.stage(EVERYBODY["03-pool"]).moves
    assert [m.place for m in moves[0]] == ["w", "w", "r1", "r1", "d"]
    assert moves[12][2].place == "r3"


def test_timers_are_told_from_threads_that_serve() -> None:
    made = race_stage.stage(EVERYBODY["05"])
    assert made.label == "20 timer threads beside the loop"
    assert race_stage.stage(EVERYBODY["03"]).label == "20 threads"
    # A timer of a process among several is one as well; one thread that
    # is none makes the box a box of threads.
    lanes = EVERYBODY["05"].lanes
    several = [replace(x, name=f"worker 1, {x.name}") for x in lanes]
    mixed = [*lanes[:-1], replace(lanes[-1], name="thread 20")]
    for found, family in ((several, "timers"), (mixed, "threads")):
        changed = replace(EVERYBODY["05"], lanes=found)
        assert race_stage.stage(changed).family == family


def test_a_request_without_a_thread_waits_in_the_queue() -> None:
    moves = race_stage.stage(EVERYBODY["06-executor"]).moves
    assert [m.place for m in moves[7]][2:4] == ["s", "r2"]
    # Its ring is taken by the next before the loop has answered it.
    first = EVERYBODY["06-executor"].clients[0]
    leaves = next(
        m for m in moves[0][3:] if m.place == "s"
    )
    begins = next(m for m in moves[6] if m.place == "r1")
    assert leaves.at == begins.at < first.answered
    assert moves[0][-2:] == [
        Move(first.answered, "s", "s"), Move(first.done, "d", "d"),
    ]


def test_no_two_dots_share_a_ring_of_an_executor() -> None:
    moves = race_stage.stage(EVERYBODY["06-executor"]).moves
    stays = []
    for its in moves:
        for here, after in itertools.pairwise(its):
            if here.place.startswith("r") and here.at < after.at:
                stays.append((here.place, here.at, after.at))
    stays.sort()
    for one, two in itertools.pairwise(stays):
        assert one[0] != two[0] or one[2] <= two[1]


def test_a_clock_that_is_not_in_order() -> None:
    made = race_sample.one("02")
    early = replace(made.clients[0], accepted=900_000, read=10)
    made.clients[0] = early
    moves = race_stage.stage(made).moves[0]
    assert [m.at for m in moves] == sorted(m.at for m in moves)


def test_ranges() -> None:
    assert race_stage.ranges([]) == "none"
    assert race_stage.ranges([3, 1, 2, 7]) == "1 to 3, 7"
    assert race_stage.ranges([1, 3]) == "1, 3"


# --- The fence --------------------------------------------------------------


@pytest.mark.parametrize("name", EVERYBODY)
def test_html_of_each_family(
    name: str, recordings: Path, render: Render
) -> None:
    html = render(fence(name))
    family = FAMILIES[name]
    made = race_stage.stage(EVERYBODY[name])
    assert f'data-family="{family}"' in html
    assert len(re.findall(r'class="race-ring"', html)) == len(made.rings)
    assert len(re.findall(r'class="race-shelf"', html)) == len(made.groups)
    # Complete without a script: all dots stand in the last box.
    answered = html.partition("race-box--answered")[2].partition("<svg")[0]
    assert len(re.findall('class="race-dot" data-state="d"', answered)) == 20
    assert html.count('class="race-dot"') == 20
    assert ">20 of 20</dd>" in html and ">1,234</dd>" in html
    assert "Waiting: none. At work: none. Answered: 1 to 20." in html
    # Every place that a dot goes to is there, once.
    for client, moves in enumerate(made.moves):
        for move in moves:
            own = "" if move.place.startswith("r") else str(client)
            assert html.count(f'data-slot="{move.place}{own}"') == 1


def test_two_servers_on_one_clock(recordings: Path, render: Render) -> None:
    html = render(fence("02, 03"))
    assert 'id="race-02-03"' in html
    assert "data-search-exclude" in html
    assert html.count('class="race-run"') == 2
    assert html.count('<svg class="seven-svg seven-svg--race') == 4
    data = inlined(html)
    assert data["end"] == EVERYBODY["02"].length
    # The axis is that of the longer one: the other ends at the left.
    rows = html.partition('id="race-02-03-requests-03-title"')[2]
    end = EVERYBODY["03"].length / (EVERYBODY["02"].length * race.MARGIN)
    ends = [
        float(x) + float(w)
        for x, w in re.findall(
            r'race-part--answering" x="([\d.]+)%" width="([\d.]+)%"',
            rows.partition("</svg>")[0],
        )
    ]
    assert len(ends) == 20
    assert max(ends) == pytest.approx(100 * end, abs=0.01)


def test_the_same_html_every_time(recordings: Path, render: Render) -> None:
    twice = f"{fence('02')}\n\n{fence('02')}"
    first = render(twice)
    assert first == render(twice)
    assert 'id="race-02"' in first and 'id="race-02-2"' in first
    ids = re.findall(r' id="([^"]+)"', first)
    assert len(ids) == len(set(ids))


def test_words_are_escaped(recordings: Path, render: Render) -> None:
    html = render(fence("07", "caption: Ours < theirs & all\n"))
    assert "A &amp; B &lt;race&gt;" in html
    assert "Ours &lt; theirs &amp; all" in html
    assert "A &amp; B &lt;CPU&gt;" in html
    assert "Seen from the clients." in html
    assert race.SLOWER in html  # no note has said so
    script = html.partition('<script type="application/json">')[2]
    assert "<" not in script.partition("</script>")[0]


def test_caption(
    recordings: Path, render: Render, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    noted = replace(EVERYBODY["02"], note="Seen with strace. More", repeats=5)
    noted.save(recordings)
    replace(EVERYBODY["03"], note="Seen with strace.").save(recordings)
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
    own = race_sample.one("02")
    own.started = "2001-02-03T00:00:00+00:00"
    own.save(tmp_path / "own" / "recordings")
    html = render(fence("02, 03"))
    assert "02: Your recording on 2001-02-03" in html
    assert "03: Recorded on 2000-01-02" in html


def test_the_readers_own_recording(
    recordings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recording, "OWN", tmp_path / "own")
    mine = race_sample.one("02").save(tmp_path / "own")
    assert race_data.find("02")[1] == recordings / "02.json"
    monkeypatch.delenv("SEVEN_OWN")
    found, file = race_data.find("02")
    assert file == mine and race_data.is_own(file)
    assert found == EVERYBODY["02"]
    file = race_data.find("03")[1]
    assert file == recordings / "03.json" and not race_data.is_own(file)


def test_nothing_ends_the_script_element_early() -> None:
    server = replace(by_name("06-protocol"), name="</script>&<b>")
    made = EVERYBODY["06-protocol"]
    run = race.Run(server, made, Path(), race_stage.stage(made))
    text = race._data([run], made.length)
    assert "<" not in text and "&" not in text
    assert json.loads(text)["runs"][0]["name"] == server.name


def test_table_holds_every_client(recordings: Path, render: Render) -> None:
    html = render(fence("02"))
    table = html.partition("<tbody>")[2].partition("</tbody>")[0]
    rows = re.findall(r"<tr>(.*?)</tr>", table)
    assert len(rows) == 20
    cells = re.findall(r">([\d.,]+)</t[hd]>", rows[19])
    last = EVERYBODY["02"].clients[19]
    assert cells[0] == "20"
    assert cells[1:] == [
        f"{t / 1000:,.1f}"
        for t in (
            last.begun, last.accepted, last.read, last.answered, last.done
        )
    ]


def test_what_the_script_gets(recordings: Path, render: Render) -> None:
    data = inlined(render(fence("02, 03")))
    runs = data["runs"]
    assert isinstance(runs, list)
    assert [run["name"] for run in runs] == ["02", "03"]
    assert runs[0]["file"] == "02_sockets/server.py"
    assert runs[0]["calls"][-2:] == [EVERYBODY["02"].length, 1234]
    moves = runs[1]["moves"][0]
    assert moves[:4] == [0, "wq", EVERYBODY["03"].clients[0].accepted, "wa"]
    assert moves[-1] == "dd"
    assert len(json.dumps(data)) < 20_000


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("servers: 08\ntitle: T", "no server is called '08'"),
        ("servers: 01, 02, 03\ntitle: T", "one server or two"),
        ("servers: 01, 01\ntitle: T", "one server or two"),
        ("servers: 01", "the option 'title' is missing"),
        ("title: T", "the option 'servers' is missing"),
        ("servers: 01\ntitle: T\nspeed: 3", "no option 'speed'"),
    ],
)
def test_mistakes(
    recordings: Path, render: Render, body: str, why: str
) -> None:
    with pytest.raises(Exception, match=why):
        render(f"```race\n{body}\n```")


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
    empty = replace(race_sample.one("02"), clients=[])
    (recordings / "02.json").write_text(recording.to_json(empty))
    with pytest.raises(Exception, match="no clients"):
        render(fence("02"))
    wrong = race_sample.one("02")
    wrong.clients[0] = replace(wrong.clients[0], lane=9)
    (recordings / "02.json").write_text(recording.to_json(wrong))
    with pytest.raises(Exception, match="a lane too many"):
        render(fence("02"))


# --- Steps, counters and charts ---------------------------------------------


def stage_of(times: list[int]) -> race_stage.Stage:
    return race_stage.Stage([], [], [[Move(at, "w", "q") for at in times]])


def test_events_close_together_are_one_step() -> None:
    made = stage_of([0, 1, 2, 500, 505, 509, 900])
    assert race.steps([made], 1000) == [0, 2, 509, 900, 1000]


def test_no_step_swallows_everything() -> None:
    made = stage_of(list(range(0, 1001, 5)))
    steps = race.steps([made], 1000)
    assert max(b - a for a, b in itertools.pairwise(steps)) <= 60


def test_thin() -> None:
    calls = [(at, at * 2) for at in range(1001)]
    few = race.thin(calls)
    assert len(few) <= race.MOST_CALLS + 1
    assert few[0] == (0, 0) and few[-1] == (1000, 2000)
    assert race.thin(calls[:5]) == calls[:5]
    assert race.thin([]) == []


def test_what_no_eye_parts_is_one_span() -> None:
    spans = [(0, 10), (12, 20), (100, 110), (105, 130)]
    assert race_charts.together(spans, 5) == [(0, 20), (100, 130)]
    assert race_charts.together(spans, 1) == [(0, 10), (12, 20), (100, 130)]


def test_lanes_have_a_row_each(recordings: Path, render: Render) -> None:
    html = render(fence("03"))
    chart = html.partition('id="race-03-threads-03-title"')[2]
    chart = chart.partition("</svg>")[0]
    assert chart.count("data-lane=") == 21
    for kind in ("accept", "read", "wait", "write"):
        assert f"race-span--{kind}" in chart
    assert ">main</text>" in chart and ">thread 20</text>" in chart


# --- The line that runs -----------------------------------------------------


@pytest.mark.parametrize("one", SERVERS, ids=lambda s: s.name)
def test_every_line_is_in_the_servers_file(one: Server) -> None:
    """Fails if a server changes and race_lines.py does not."""
    numbers = race_lines.table(one.name)
    lines = pieces.read(one.file).splitlines()
    for where, number in numbers.items():
        assert where.text in lines[number - 1]
    if one.name != "06-protocol":
        assert numbers


def test_a_changed_server_is_an_error() -> None:
    where = race_lines.Where("wait", "any", "any", "work", "time.sleep(")
    good = "def work():\n    time.sleep(1)\n"
    assert race_lines.number(good, where) == 2
    with pytest.raises(SiteError, match="0 lines"):
        race_lines.number(good.replace("sleep", "nap"), where)
    with pytest.raises(SiteError, match="2 lines"):
        race_lines.number(good + "    time.sleep(2)\n", where)
    with pytest.raises(SiteError, match="there is no 'work'"):
        race_lines.number(good.replace("work", "play"), where)
    with pytest.raises(SiteError, match="0 lines"):  # only in a comment
        race_lines.number("def work():\n    pass  # time.sleep(\n", where)


def lit(made: Recording, now: int) -> dict[str, int]:
    return {
        line.text: many
        for line in race_lines.running(made)
        if (many := race_lines.at_once(line, now))
    }


@pytest.mark.parametrize(
    ("name", "text", "many"),
    [
        ("01", "time.sleep(self.options.delay)", 1),
        ("02", "time.sleep(options.delay)", 1),
        ("03", "time.sleep(options.delay)", 20),
        ("03-pool", "time.sleep(options.delay)", 10),
        ("04", "time.sleep(self.options.delay)", 1),
        ("06", "await asyncio.sleep(options.delay)", 20),
        ("06-executor", "time.sleep(options.delay)", 6),
        ("05-heap", "ready = self.selector.select(self.pause())", 1),
        ("07", "batch = engine.wait(block=not self.again)", 2),
    ],
)
def test_the_line_at_40_ms(name: str, text: str, many: int) -> None:
    assert lit(EVERYBODY[name], 40_000)[text] == many


def test_a_thread_of_the_pool_waits_at_the_queue() -> None:
    made = race_sample.threads("03-pool", 10)
    thread = made.lanes[4]
    long = Span("wait", 900_000, 950_000)
    made.lanes[4] = replace(thread, spans=(*thread.spans, long))
    assert list(lit(made, 920_000)) == [
        "while (connection := queue.get()) is not None:"
    ]


def test_what_runs_in_a_library_lights_nothing() -> None:
    assert race_lines.running(EVERYBODY["06-protocol"]) == []
    # A timer's thread waits inside threading.
    assert lit(EVERYBODY["05"], 40_000) == {}
    assert "time.sleep(options.delay)" not in lit(EVERYBODY["06"], 40_000)


def test_lines_of_one_request() -> None:
    made = race_sample.one("02")
    found = {
        (line.text, begin)
        for line in race_lines.running(made)
        for begin, _ in line.times
        if begin < race_sample.DELAY + 2 * race_sample.SOON + 500
    }
    assert found == {
        ("connection, _ = listener.accept()", 900),
        ("data = connection.recv(RECV_SIZE)", 1500),
        ("time.sleep(options.delay)", 2000),
        ("connection.sendall(answer)", 102_000),
        ("if not connection.recv(RECV_SIZE):", 102_200),
    }


def test_head_and_page_are_two_lines_of_http_server() -> None:
    made = race_sample.one("01")
    first = made.clients[0].answered
    spans = [
        Span("write", first, first + 10, 0),
        Span("write", first + 20, first + 30, 0),
    ]
    made.lanes = [Lane("main", 0, tuple(spans))]
    assert list(lit(made, first + 5)) == ["self.end_headers()"]
    assert list(lit(made, first + 25)) == ["self.wfile.write(PAGE)"]


def test_a_wait_for_a_lock_is_no_line_of_ours() -> None:
    made = race_sample.threads("03")
    main = made.lanes[0]
    lock = Span("wait", 70_000, 71_000)
    thread = made.lanes[1]
    short = Span("wait", 100, 200, 0)  # before its request is read
    made.lanes[0] = replace(main, spans=(*main.spans, lock))
    made.lanes[1] = replace(thread, spans=(short, *thread.spans))
    assert list(lit(made, 70_500)) == ["time.sleep(options.delay)"]
    assert list(lit(made, 55_000)) == [
        "connection, _ = listener.accept()", "time.sleep(options.delay)",
    ]
    # In the middle of a request, only the delay itself is a sleep.
    begun = made.clients[0].read + 1
    made.lanes[1] = replace(
        thread, spans=(Span("wait", begun, begun + 5000, 0),)
    )
    assert lit(made, begun + 10).get("time.sleep(options.delay)", 0) == sum(
        c.read <= begun + 10 for c in made.clients[1:]
    )


def test_shown_lines_say_where_they_are_from(render: Render) -> None:
    name = "04_selectors/server.py"
    html = render(
        f"```source\nfile: {name}\nname: Loop.run, Loop.watch, State\n```"
    )
    assert f'<code data-file="{name}">' in html
    block = html.partition("<code")[2].partition("</code>")[0]
    block = block.partition(">")[2]
    lines = pieces.read(name).splitlines()
    marked = re.findall(r'<span data-line="(\d+)">(.*?\n)</span>', block)
    assert len(marked) > 30
    for number, line in marked:
        text = htmllib.unescape(re.sub("<[^>]+>", "", line)).rstrip("\n")
        assert lines[int(number) - 1].endswith(text), number
        assert text or not lines[int(number) - 1]
    # What is copied is the code and nothing else.
    plain = htmllib.unescape(re.sub("<[^>]+>", "", block))
    assert "\n\n\nclass State(Enum):" in plain


# --- Numbers ----------------------------------------------------------------


def test_numbers(recordings: Path, render: Render) -> None:
    def shown(word: str) -> str:
        return re.sub("<[^>]+>", "", render(f"`#!num {word}`")).strip()

    made = EVERYBODY["02"]
    assert shown("race:02.first") == "102\u00a0ms"
    assert shown("race:02.last") == f"{made.length / 1000:,.0f}\u00a0ms"
    longest = max(c.done - c.begun for c in made.clients) / 1000
    assert shown("race:02.longest_wait") == f"{longest:,.0f}\u00a0ms"
    assert shown("race:02.peak") == "1"
    assert shown("race:03.peak") == "20"
    assert shown("race:03-pool.busy") == "10"
    assert shown("race:03.threads") == "21"
    assert shown("race:03.calls") == "1,234"
    assert shown("race:02.last / race:03.last") == "20"
    assert shown("race:06.busy") == "0"


@pytest.mark.parametrize(
    ("word", "why"),
    [
        ("race:02.middle", "the figures are first, last"),
        ("race:02", "the figures are first, last"),
        ("race:08.last", "no server is called '08'"),
    ],
)
def test_numbers_that_are_not_there(
    recordings: Path, render: Render, word: str, why: str
) -> None:
    with pytest.raises(Exception, match=why):
        render(f"`#!num {word}`")


def test_figures_of_a_small_recording() -> None:
    clients = [
        Client(0, 1, 2, 8000, 9000, 3, 1000, 7000, 0),
        Client(5000, 5001, 5002, 11000, 12000, 5003, 6000, 10000, 0),
    ]
    made = replace(
        race_sample.one("02"), clients=clients, lanes=[Lane("main", 0)],
        calls=[(0, 3), (9000, 17)],
    )
    found = {n: count(made) for n, count in race_data.FIGURES.items()}
    assert found == {
        "first": 9, "last": 12, "longest_wait": 9, "peak": 2, "busy": 0,
        "threads": 1, "calls": 17,
    }
