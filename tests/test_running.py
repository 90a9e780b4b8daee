"""Running: the command line, the ready line, the closing line."""

import re
import socket
import subprocess

from tests.beside import beside
from tests.marks import rule
from tests.process import PATIENCE, PYTHON, running
from tools.servers import Server

Done = subprocess.CompletedProcess[str]


def run(
    server: Server, *options: str, through: tuple[str, ...] = ()
) -> Done:
    """Run a server that is expected to end by itself.

    through: a command that runs the server's, as ``seccomp.py ... --``.
    """
    command = [*through, PYTHON, str(server.path), *options]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE,
        check=False,
    )


def assert_one_sentence(text: str) -> None:
    assert "Traceback" not in text
    assert text.count("\n") == 1 and text.endswith("\n"), text
    assert len(text) > 15, text


def assert_refused(done: Done, status: int = 1) -> None:
    """One sentence on stderr, nothing else."""
    assert (done.returncode, done.stdout) == (status, ""), done.args
    assert_one_sentence(done.stderr)


@rule("help")
def test_help(server: Server) -> None:
    done = run(server, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    expected = {
        "--host": "127.0.0.1",
        "--port": "8000",
        "--delay": "seconds.*0.1",
        "--compute": "(steps|iterations).*0",
        "--lame-duck": "seconds.*0",
    }
    if server.workers:
        expected["--workers"] = "thread|process"
    # Each option begins a line of its own, its text may go on below.
    listed = done.stdout.rpartition("\noptions:")[2]
    parts = re.split(r"\n +(?=--?[a-z])", listed)
    for option, pattern in expected.items():
        texts = [" ".join(p.split()) for p in parts if p.startswith(option)]
        assert len(texts) == 1, (option, done.stdout)
        assert re.search(pattern, texts[0]), (option, texts)


@rule("usage")
def test_usage(server: Server) -> None:
    # All of them where the section is at home; test_same_bytes.py says
    # that the others have the very same.
    nonsense: list[tuple[str, ...]] = [("--port", "banana")]
    if server.name in ("02", "own"):
        nonsense += [
            ("--port", "65536"), ("--port", "-1"), ("--delay", "-0.1"),
            ("--delay", "nan"), ("--delay", "soon"), ("--compute", "-1"),
            ("--compute", "1.5"), ("--lame-duck", "-1"),
            ("--lame-duck", "60.5"), ("--no-such-option",),
        ]
    if server.workers:
        nonsense += [("--workers", "0"), ("--workers", "x")]
    for options in nonsense:
        assert_refused(run(server, *options), 2)


@rule("port-in-use")
@beside
def test_port_in_use(server: Server) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = run(server, "--port", str(port))
        assert_refused(done)
        assert str(port) in done.stderr
    # Also when a server of the same kind has it: SO_REUSEPORT must not
    # let two servers share one port by accident.
    with running(server) as process:
        assert_refused(run(server, "--port", str(process.port)))
        process.assert_serves()


@rule("port-in-use")
def test_address_not_ours(server: Server) -> None:
    # 192.0.2.0/24 is for documentation: no machine has it.
    assert_refused(run(server, "--host", "192.0.2.1", "--port", "0"))


@rule("ready-line")
@beside
def test_ready_line(server: Server) -> None:
    # running() waits for the line on a pipe, where only a flush gets it
    # through, and takes the port from it: at that moment, connecting
    # must work.
    with running(server) as process:
        assert process.port > 0
        process.assert_serves()
    assert "Serving" not in process.closing, "it is printed once"


@rule("only-local")
@beside
def test_only_local(server: Server) -> None:
    with running(server) as process:
        listening = [
            c.laddr.ip
            for p in process.processes()
            for c in p.net_connections(kind="tcp")
            if c.status == "LISTEN"
        ]
        assert set(listening) == {"127.0.0.1"}, listening


@rule("closing-line")
def test_closing_line(server: Server) -> None:
    # The peak must be the server's own, however large we have been.
    ballast = b"x" * 220_000_000
    del ballast
    with running(server, "--compute", "3000000") as process:
        for _ in range(3):
            process.assert_serves()
        with process.client(b"nonsense\r\n\r\n") as client:
            client.rest()
        spent = process.cpu()
    lines = process.closing.splitlines()
    assert len(lines) == 1, process.closing
    match = re.fullmatch(
        r"Answered (\d+) requests on (\d+) connections; CPU ([0-9.]+) s "
        r"user, ([0-9.]+) s system; peak memory ([0-9.]+) MiB",
        lines[0],
    )
    assert match, lines[0]
    assert (match[1], match[2]) == ("4", "4"), lines[0]
    said = float(match[3]) + float(match[4])
    assert 0.8 * spent <= said <= 1.2 * spent + 0.2, (said, spent)
    assert 3 < float(match[5]) < 200, lines[0]


@rule("restart")
@beside
def test_restart(server: Server) -> None:
    # The server closes first, so its side of the connections remains in
    # TIME_WAIT, which keeps the port without SO_REUSEADDR.
    with running(server) as process:
        for _ in range(5):
            process.assert_serves()
        port = process.port
    for _ in range(2):
        with running(server, "--port", str(port)) as process:
            process.assert_serves()
            waiting = process.client(b"GET")
        waiting.close()
