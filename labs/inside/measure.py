"""``./bench.sh labs inside``: four servers, seen from outside under load.

Six clients ask each of them at once. While they wait, ss, ps and py-spy
look at the server; strace counts during a second load. Where there is a
Python 3.15, its own tool looks at the tasks of 06. What they print is
kept in `Run.texts`, below its command.
"""

import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path

from tools.bench import interpreters, strace
from tools.bench.outcome import keep_raw
from tools.bench.server import Running, start
from tools.bench.session import Option, Refused, Session
from tools.common.launch import scrub
from tools.common.raw_client import GET_CLOSE, Client, NoResponse
from tools.data.results import Point, Run
from tools.servers import Server, by_name

HELP = (
    "ss, ps, strace, py-spy and Python's own tool on 02, 03, 04 and 06, "
    "which six clients wait for (about half a minute)"
)
SUITE = "labs-inside"
OPTIONS: tuple[Option, ...] = ()
NAMES = ("02", "03", "04", "06")
CLIENTS = 6
LOOKED_AT = 10.0  # seconds a request waits: all looks fall into one wait
COUNTED = 1.0  # seconds a request waits while strace counts
MOMENT = 0.5  # seconds in which each server comes as far as it can
LOOK_SECONDS = 20.0  # for one of them to print
TOP = 7  # lines of strace's table: its head, and what takes most time
LOOKS = {
    "ss": "ss -tan 'sport = :{port}'",
    "ps": "ps -L -o lwp,wchan:20,comm -p {pid}",
    "py-spy": "py-spy dump --pid {pid}",
}
NEWEST = "python3.15"  # the first that can look at another's tasks
TASKS = {
    "tasks": "{python} -m profiling.sampling dump --async-aware "
    "--async-mode all {pid}",
}
COUNT = "strace -c -w -f -U total-time,calls,name"


def measure(session: Session) -> int:
    """Look at each server."""
    if sys.platform != "linux":
        raise Refused("the lab inside needs Linux")
    for tool in (*LOOKS, "strace"):
        if not shutil.which(tool):
            session.say(f"There is no {tool} here: it is left out.")
    session.rounds([
        (Point(name, SUITE, CLIENTS, LOOKED_AT),
         partial(look_inside, session, by_name(name)))
        for name in NAMES
    ], 1, lambda one: ", ".join(one.texts) or "nothing")  # fmt: skip
    return session.status()


def look_inside(session: Session, server: Server) -> Run:
    """What each tool prints of a server that has something to do."""
    one = Run("")
    looks = {tool: LOOKS[tool] for tool in LOOKS if shutil.which(tool)}
    look_at(server, sys.executable, looks, one)
    if server.step == 6 and (python := newest(session)):
        look_at(server, python, TASKS, one)
    if shutil.which("strace"):
        with start(server, COUNTED) as process:
            one.texts["strace"] = counted(process)
    for tool, text in one.texts.items():
        keep_raw(session.folder, f"{server.name} {tool}", one.command, text)
    return one


def newest(session: Session) -> str:
    """The path of a Python 3.15 or newer; "" if there is none."""
    found = interpreters.choose(session.options.pythons, [NEWEST])
    if found and interpreters.numbers(found[-1]) >= [3, 15]:
        return found[-1].program
    session.say(f"There is no {NEWEST} here: no look at the tasks.")
    return ""


def look_at(
    server: Server, python: str, looks: dict[str, str], one: Run
) -> None:
    """Let six clients wait for a server, and look at it with these."""
    with start(server, LOOKED_AT, python=python) as process:
        one.command = one.command or process.command
        clients = [Client(process.port) for _ in range(CLIENTS)]
        time.sleep(MOMENT)  # a server that can accept them all has done so
        for client in clients:
            client.send(GET_CLOSE)
        time.sleep(MOMENT)
        for tool, form in looks.items():
            command = form.format(
                port=process.port, pid=process.pid, python=NEWEST
            )
            if text := printed(command, python):
                one.texts[tool] = text
        process.kill()  # nobody needs the responses
        for client in clients:
            client.close()


def printed(command: str, python: str = NEWEST) -> str:
    """A command and what it prints; "" if it failed.

    python: what runs where the command says NEWEST. py-spy begins with
    two lines about the interpreter's place, which only this machine
    knows, and the paths of Python's own files are shortened.
    """
    done = subprocess.run(
        ["sh", "-c", command.replace(NEWEST, shlex.quote(python))],
        capture_output=True, text=True, check=False, timeout=LOOK_SECONDS,
    )
    text = re.sub(r'"/[^"]*/(?=asyncio/)', '"', done.stdout)
    if text.startswith("Process "):
        text = text.partition("\n\n")[2]
    lines = [line.rstrip() for line in scrub(text).rstrip().splitlines()]
    return "" if done.returncode else "\n".join([f"$ {command}", *lines])


def counted(process: Running) -> str:
    """The top of strace's table, of a load of a moment."""
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder, "table")
        with strace.attached(COUNT.split(), [process.pid], table):
            clients = [Client(process.port) for _ in range(CLIENTS)]
            for client in clients:
                client.send(GET_CLOSE)
            try:
                for client in clients:
                    with client:
                        client.response()
            except NoResponse as error:
                raise strace.StraceError(f"under strace: {error}") from error
        lines = table.read_text("utf-8").splitlines()
    more = ["..."] if lines[TOP:] else []
    shown = [line.rstrip() for line in lines[:TOP]] + more
    return "\n".join([f"$ {COUNT} -p {process.pid}", *shown])
