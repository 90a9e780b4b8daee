"""./bench.sh --peers: the list, how peers start, what a run says of them.

Real peers in Python are not tried here (they need packages); nginx and
node are if they are installed.
"""

import io
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from rich.console import Console
from rich.progress import Progress

from tools import peers
from tools.bench import __main__ as command
from tools.bench import plan, table, wrk
from tools.bench import run as bench_run
from tools.bench.ab import Load
from tools.bench.cost import Meter
from tools.bench.peers import app, page, start
from tools.bench.server import ServerError
from tools.data.results import MORE_SUITES, Machine, Point, Results, Run, load
from tools.peers import PEERS, Peer, by_name, select
from tools.servers import ROOT, SERVERS
from tools.servers import by_name as server_by_name

HERE = ROOT / "tools" / "bench" / "peers"
SHORT = Load(4, 40, 2)

FAKE = """\
import socket, sys, threading, time

FAULT, host, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
if FAULT == "crashes":
    sys.exit("no such colour")
if FAULT == "never ready":
    time.sleep(60)
from tools.bench.peers import page
text = page.KEPT
if FAULT == "another page":
    text = text.replace(b"works!", b"burns!")
if FAULT == "another type":
    text = text.replace(b"; charset=utf-8", b"")
if FAULT == "missing":
    text = text.replace(b"200 OK", b"404 Not Found")

def answer(connection):
    with connection:
        if connection.recv(4096):
            connection.sendall(text)

listener = socket.create_server((host, port), backlog=64)
while True:
    connection, _ = listener.accept()
    threading.Thread(target=answer, args=[connection], daemon=True).start()
"""


def fake(folder: Path, fault: str = "good") -> Peer:
    file = folder / "fake.py"
    file.write_text(f"import sys\nsys.path[:0] = [{str(ROOT)!r}]\n{FAKE}")
    return Peer(
        fault.replace(" ", "-"), "a fake", "It is none.",
        (sys.executable, str(file), fault, "{host}", "{port}"),
    )


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[bench_run.Bench]:
    machine = Machine("CPU", 2, 2**30, "Linux", "CPython", 1024)
    results = Results(
        "./bench.sh", "peers", "2026-01-01T00:00:00+00:00", "", machine,
        {}, "python",
    )
    console = Console(file=io.StringIO(), width=100)
    with Progress(console=console) as progress:
        yield bench_run.Bench(
            results, tmp_path / "results", progress, (900, "it is small")
        )
    assert psutil.Process().children(recursive=True) == []


def screen(bench: bench_run.Bench) -> str:
    file = bench.progress.console.file
    assert isinstance(file, io.StringIO)
    return file.getvalue()


# The list -----------------------------------------------------------------


def test_every_peer_of_the_issue_is_there() -> None:
    assert [peer.name for peer in PEERS] == [
        "nginx", "node", "asyncio", "coroutines", "uvloop", "blazio",
        "trio", "tornado", "aiohttp", "gevent", "eventlet", "uvicorn",
        "granian", "gunicorn",
    ]
    assert not {p.name for p in PEERS} & {s.name for s in SERVERS}


def test_names_are_chosen_in_the_order_of_the_list() -> None:
    assert select("node, nginx") == [by_name("nginx"), by_name("node")]
    assert select("all") == list(PEERS)


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ("banana", "no peer is called 'banana'; there are nginx, node,"),
        ("nginx,3", "no peer is called '3'"),
        (",", "--peers names no peer"),
        ("", "--peers names no peer"),
    ],
)
def test_nonsense_gives_one_sentence(
    names: str, sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        select(names)
    with pytest.raises(SystemExit) as caught:
        command.main(["--peers", names])
    assert caught.value.code == 2
    assert sentence in capsys.readouterr().err


def test_the_reference_of_the_peers_has_all_of_them() -> None:
    with pytest.raises(SystemExit):
        command.parse(["--peers", "nginx", "--reference"])
    assert command.parse(["--peers", "all", "--reference"]).reference
    with pytest.raises(SystemExit):
        command.parse(["--peers", "nginx", "--full"])


def test_the_command_is_told_without_paths() -> None:
    options = command.parse(["--peers", "nginx,node", "--only", "07"])
    assert command._command(options).startswith(
        "./bench.sh --peers nginx,node --only 07"
    )
    options = command.parse(["--peers", "all", "--repeats", "2"])
    assert command._command(options) == "./bench.sh --peers all --repeats 2"


def test_the_list_needs_nothing_that_must_be_installed() -> None:
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c",
         f"import sys; sys.path[:0] = [{str(ROOT)!r}]\n"
         "import tools.peers\n"
         "assert not {'psutil', 'rich', 'tools.bench'} & {*sys.modules}"],
        capture_output=True, text=True, check=False,
    )
    assert done.returncode == 0, done.stderr


# Their page ---------------------------------------------------------------


def test_the_page_is_that_of_our_servers() -> None:
    assert len(page.PAGE) == 249
    for server in SERVERS:
        source = server.path.read_text()
        if 'PAGE = ' in source:
            assert page.PAGE.decode() in source, server.file


def test_files_of_peers_are_there_and_short() -> None:
    for peer in PEERS:
        for word in peer.start:
            if word.startswith("tools."):
                name = word.partition(":")[0].rpartition(".")[2]
                assert (HERE / f"{name}.py").is_file()
    for file in HERE.glob("on_*.py"):
        assert len(file.read_text().splitlines()) < 60


def test_every_package_is_pinned() -> None:
    pins = {
        line.partition("==")[0]
        for line in start.REQUIREMENTS.read_text().splitlines()
        if "==" in line
    }
    for peer in PEERS:
        assert {*peer.packages} <= pins


@pytest.mark.parametrize(
    ("head", "connection", "keep"),
    [
        (b"GET / HTTP/1.1\r\nHost: x\r\n", b"", True),
        (b"GET / HTTP/1.1\r\nConnection: close\r\n", b"", False),
        (b"GET / HTTP/1.0\r\nHost: x\r\n", b"", False),
        (
            b"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n",
            b"Connection: keep-alive\r\n", True,
        ),
    ],
)
def test_answers_written_by_hand(
    head: bytes, connection: bytes, keep: bool
) -> None:
    text, kept = page.answer(head)
    assert kept == keep
    assert text == (
        b"HTTP/1.1 200 OK\r\nContent-Type: text/html; charset=utf-8\r\n"
        b"Content-Length: 249\r\n" + connection + b"\r\n" + page.PAGE
    )


def test_the_wsgi_application() -> None:
    said: list[object] = []
    body = app.wsgi({}, lambda *words: said.append(words))
    assert b"".join(body) == page.PAGE
    assert said == [("200 OK", page.FIELDS)]


def test_nginx_gets_the_page_and_folders_of_its_own(tmp_path: Path) -> None:
    start.write_nginx_conf(tmp_path, 1234)
    text = (tmp_path / "nginx.conf").read_text()
    assert f"return 200 '{page.PAGE.decode()}';" in text
    assert "listen 127.0.0.1:1234 backlog=4096;" in text
    assert "$" not in text


def test_versions_are_the_pinned_ones() -> None:
    found = start.versions(select("asyncio,trio,uvicorn"))
    assert set(found) == {"trio", "uvicorn"}
    assert f"trio=={found['trio']}\n" in start.REQUIREMENTS.read_text()


def test_versions_of_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    if shutil.which("node"):
        assert re.fullmatch(
            r"[\d.]+", start.versions(select("node"))["node"]
        )
    monkeypatch.setenv("PATH", "/nowhere")
    assert start.versions(select("node")) == {"node": "?"}


# Starting and stopping ----------------------------------------------------


def test_a_good_peer_is_measured(
    bench: bench_run.Bench, tmp_path: Path
) -> None:
    task = plan.Task(fake(tmp_path), "peer-new", 0.0, SHORT)
    bench.measure_all([task])
    (point,) = load(bench.folder).points
    (run,) = point.runs
    assert (run.error, run.requests, run.body_bytes) == (None, 40, 249)
    assert run.figure("cpu_ms")
    assert (bench.folder / "raw" / "good.txt").is_file()


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("crashes", "the server does not start: no such colour"),
        ("another page", "GET / is answered with another page (249 bytes "
         "instead of 249)"),
        ("another type", "GET / is answered with Content-Type: text/html "
         "instead of text/html; charset=utf-8"),
        ("missing", "GET / is answered with status 404"),
    ],
)
def test_a_peer_that_does_not_work_is_a_row(
    bench: bench_run.Bench, tmp_path: Path, fault: str, words: str
) -> None:
    tasks = [
        plan.Task(fake(tmp_path, fault), "peer-new", 0.0, SHORT),
        plan.Task(server_by_name("02"), "peer-new", 0.0, SHORT),
    ]
    bench.measure_all(tasks)
    bad, good = bench.results.points
    assert (bad.status, bad.reason) == ("failed", words)
    assert good.status == "ok"
    table.show(bench.results, bench.progress.console)
    assert words in " ".join(screen(bench).split())


def test_a_peer_that_is_never_ready_is_stopped(
    bench: bench_run.Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tools.bench.server.READY_SECONDS", 0.5)
    peer = fake(tmp_path, "never ready")
    bench.measure_all([plan.Task(peer, "peer-new", 0.0, SHORT)])
    assert "was not ready" in bench.results.points[0].reason


def test_a_program_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    nginx, node = select("nginx,node")
    assert start.missing([nginx, node]) == {
        "nginx": "nginx is not installed: apt install nginx-light, or brew "
        "install nginx",
        "node": "node is not installed: apt install nodejs, or brew install "
        "node",
    }
    with (
        pytest.raises(ServerError, match="nginx cannot be run"),
        start.start(nginx),
    ):
        pass


def test_a_peer_for_a_newer_python(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(say: object) -> None:
        raise AssertionError("nothing is to be installed")

    monkeypatch.setattr(start, "_make_venv", refuse)
    monkeypatch.setattr(sys, "version_info", (3, 11, 9))
    (why,) = start.missing([by_name("blazio")]).values()
    assert why == (
        "blazio needs Python 3.12 or newer: PYTHON=python3.12 ./bench.sh "
        "--peers blazio"
    )


def test_a_package_that_cannot_be_installed(
    monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[str] = []
    monkeypatch.setattr(start, "_make_venv", lambda say: None)
    monkeypatch.setattr(start, "_importable", lambda peer: False)
    monkeypatch.setattr(start, "_install", lambda peer: "no net")
    assert start.missing([by_name("trio")], said.append) == {
        "trio": "trio cannot be installed: no net"
    }
    assert said == ["Installing trio in .venv-peers ..."]


def test_an_environment_that_cannot_be_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def fail(*words: object, **options: object) -> None:
        raise subprocess.CalledProcessError(1, "ensurepip")

    monkeypatch.setattr(start, "VENV", tmp_path / ".venv-peers")
    monkeypatch.setattr("venv.create", fail)
    why = start.missing([by_name("trio")], lambda text: None)["trio"]
    assert "apt install python3-venv" in why


@pytest.mark.parametrize("name", ["nginx", "node"])
def test_a_real_one(name: str) -> None:
    if not shutil.which(name):
        pytest.skip(f"{name} is not installed")
    with start.start(by_name(name)) as process:
        process.warm_up(20)
        meter = Meter(process)
        process.warm_up(100)
        cost = meter.read()
        family = process.processes()
    assert cost.cpu_user + cost.cpu_system > 0
    assert not [member for member in family if member.is_running()]


# What is measured ---------------------------------------------------------


def peer_tasks(with_wrk: bool = True, ports: bool = True) -> list[plan.Task]:
    servers = [server_by_name("03-pool"), server_by_name("07")]
    return plan.peers(select("nginx"), servers, 5, with_wrk, ports)


def test_peers_and_servers_are_interleaved() -> None:
    order = [
        (t.suite, t.server.name, n)
        for t, n in plan.interleave(peer_tasks())
    ]
    names = ("nginx", "03-pool", "07")
    assert order == [
        (suite, name, number)
        for suite in ("peer-keep", "peer-new")
        for number in range(1, 6)
        for name in names
    ]


def test_each_has_one_worker() -> None:
    for task in peer_tasks():
        assert task.repeats == 5
        assert (task.delay, task.load.clients) == (0.0, 100)
        wanted = ("--workers", "1") if task.server.name == "07" else ()
        assert task.options == wanted


def test_wrk_keeps_connections_ab_makes_new_ones() -> None:
    loads = {t.suite: t.load for t in peer_tasks()}
    assert isinstance(loads["peer-keep"], wrk.Load)
    assert isinstance(loads["peer-new"], Load)
    assert not loads["peer-new"].keep_alive
    loads = {t.suite: t.load for t in peer_tasks(with_wrk=False)}
    assert isinstance(loads["peer-keep"], Load)
    assert loads["peer-keep"].keep_alive


def test_few_new_connections_where_ports_stay_busy() -> None:
    for task in peer_tasks(ports=False):
        if not task.load.keep_alive:
            assert isinstance(task.load, Load)
            assert task.load.requests <= plan.PORTS_ELSEWHERE


def test_a_run_of_all_takes_about_a_quarter_of_an_hour() -> None:
    tasks = plan.peers(list(PEERS), list(SERVERS), 5, True, True)
    assert sum(t.seconds * t.repeats for t in tasks) < 20 * 60


@pytest.mark.skipif(not shutil.which("wrk"), reason="wrk is needed")
def test_a_run_with_wrk(bench: bench_run.Bench) -> None:
    load_ = wrk.Load(4, 1)
    task = plan.Task(
        server_by_name("06-protocol"), "peer-keep", 0.0, load_
    )
    bench.measure_all([task])
    (run,) = bench.results.points[0].runs
    assert run.error is None
    assert run.requests_per_second
    assert set(run.latency_ms) == {"mean", "p50", "p75", "p90", "p99", "max"}
    assert "\nwrk -t1 -c4 -d1s " in run.command
    assert bench.results.points[0].keep_alive


def test_the_keep_alive_of_others_is_checked(
    bench: bench_run.Bench
) -> None:
    keep = Load(4, 40, 2, keep_alive=True)
    names = ("02", "06-protocol")
    bench.measure_all(
        [plan.Task(server_by_name(n), "peer-keep", 0.0, keep) for n in names]
    )
    shares = [
        p.runs[0].extra["kept_alive_share"] for p in bench.results.points
    ]
    assert shares[0] == 0.0 and shares[1] > 0.9
    table.show(bench.results, bench.progress.console)
    said = " ".join(screen(bench).split())
    assert "each answer to this load: 02 (ab speaks" in said


# What is shown ------------------------------------------------------------


def point(name: str, cpu: float, suite: str = "peer-keep") -> Point:
    runs = [
        Run(
            "x", requests=1000, seconds=1.0, requests_per_second=1000.0,
            cpu_user=cpu * part / 4, cpu_system=cpu * part * 3 / 4,
            latency_ms={"p50": 0.25, "p99": 2.0},
        )
        for part in (0.9, 1.0, 1.1)
    ]
    return Point(name, suite, 100, 0.0, runs=runs)


def test_the_cheapest_stands_first_and_nginx_is_one(
    bench: bench_run.Bench
) -> None:
    bench.results.points = [
        point("node", 0.015), point("nginx", 0.01), point("07", 0.008),
    ]
    task = plan.Task(by_name("blazio"), "peer-keep", 0.0, wrk.Load(100, 3))
    bench.skip([task], "blazio is not to be had")
    table.show(bench.results, bench.progress.console)
    said = screen(bench)
    assert f"peer-keep: {MORE_SUITES['peer-keep']}" in said
    rows = [line.split() for line in said.splitlines() if line.strip()]
    found = [
        row for row in rows if row[0] in ("07", "nginx", "node", "blazio")
    ]
    assert [row[:5] for row in found] == [
        ["07", "8.0", "0.80", "25", "%"],
        ["nginx", "10.0", "1.00", "25", "%"],
        ["node", "15.0", "1.50", "25", "%"],
        ["blazio", "skipped"],
    ]
    assert ["7.2-8.8"] in [row[:1] for row in rows]
    assert "blazio is not to be had" in said


def test_titles_are_for_readers() -> None:
    for peer in peers.PEERS:
        assert peer.title and peer.about.endswith(".")
        assert peer.get or peer.is_python
        assert bool(peer.module) == peer.is_python
