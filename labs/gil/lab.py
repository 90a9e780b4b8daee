"""Lab: what the GIL lets threads share.

CPython runs Python code in one thread at a time: in the one that holds
the global interpreter lock, the GIL. A thread that waits gives it away
at once; a thread that computes is asked for it every 5 ms. This lab
measures what that does to threads that compute, to a pair that hands
something over, to a thread that has to answer, and to a web server.

Run it:     python3 labs/gil/lab.py
Try this:   python3 labs/gil/lab.py --only answer
            the same with python3.13t, which has no GIL, and with
            python2.7, whose GIL was another one
It runs on Python 2.7 and on 3.6 and later: so its types are comments.
"""

from __future__ import print_function

import argparse
import collections
import importlib
import json
import math
import os
import platform
import re
import signal
import socket
import subprocess
import sys
import threading
import time

MYPY = False
if MYPY:  # for the type checker alone
    from typing import (
        Any, Callable, Dict, List, NoReturn, Optional, Union,
    )

    Figures = Dict[str, List[float]]
    Pair = Union["LockPair", "ConditionPair"]

interpreters = None  # type: Any
try:
    interpreters = importlib.import_module("concurrent.interpreters")
except ImportError:  # before Python 3.14
    pass
SECONDS = 0.5  # that one measurement lasts
WARM_UP = 200000  # steps to count before anything is timed
PINGS = 30  # answers to time for one switch interval
PING_PAUSE = 0.01  # seconds between two of them
POOL = 10  # threads of the web server
AB_TIMES = 4  # ab gets more time than the others, in whole seconds
ANSWER = (
    b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n"
    b"Content-Length: 3\r\nConnection: close\r\n\r\nok\n"
)
OLD = sys.version_info[0] == 2
# How soon a computing thread is asked for the GIL, in seconds, or in
# steps of the old one's bytecode. The second is what it is usually.
SWITCH = {"short": 0.0005, "usual": 0.005, "long": 0.05}
if OLD:
    SWITCH = {"short": 10, "usual": 100, "long": 1000}
clock = time.time if OLD else time.perf_counter


class LabError(Exception):
    """It cannot be measured here; the text says why."""


# --- Threads that compute -------------------------------------------


def count_down(steps):  # type: (int) -> None
    """Pure computing: nothing in it waits."""
    while steps:
        steps -= 1


def efficiency(seconds, timed):
    # type: (float, Callable[[int, int], float]) -> float
    """The work per second of two that compute, against one's.

    1: the second one adds nothing; 2: it has a core of its own.
    timed: time_threads, time_processes or time_interpreters.
    """
    count_down(WARM_UP)
    begun = clock()
    count_down(WARM_UP)
    steps = int(WARM_UP * seconds / (clock() - begun)) + 1
    return 2 * timed(1, steps) / timed(2, steps)


def time_threads(number, steps, count=count_down):
    # type: (int, int, Callable[[int], object]) -> float
    """Seconds until so many threads have counted so many steps each."""
    threads = [
        threading.Thread(target=count, args=(steps,))
        for _ in range(number)
    ]
    begun = clock()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return clock() - begun


def time_processes(number, steps):  # type: (int, int) -> float
    """The same with processes: each has an interpreter and a GIL."""
    begun = clock()
    for _ in range(number):
        if not os.fork():
            try:
                count_down(steps)
            finally:  # not a step further in the lab's code
                os._exit(0)
    for _ in range(number):
        os.wait()
    return clock() - begun


def time_interpreters(number, steps):  # type: (int, int) -> float
    """The same with interpreters of one process: each has a GIL."""
    assert interpreters
    made = [interpreters.create() for _ in range(number)]
    waiting = list(made)
    took = time_threads(
        number, steps, lambda n: waiting.pop().call(count_down, n)
    )
    for interpreter in made:
        interpreter.close()
    return took


class Hog(object):
    """A thread that computes as long as the block lasts."""

    def __init__(self, wanted):  # type: (bool) -> None
        self.wanted = wanted
        self.stop = False

    def __enter__(self):  # type: () -> Hog
        if self.wanted:
            self.thread = threading.Thread(target=self.run)
            self.thread.start()
        return self

    def __exit__(self, *error):  # type: (object) -> None
        self.stop = True
        if self.wanted:
            self.thread.join()

    def run(self):  # type: () -> None
        """Count until told to stop."""
        while not self.stop:
            count_down(1000)


# --- Threads that hand something over -------------------------------


class LockPair(object):
    """A producer and a consumer: each wakes the other with a lock."""

    def __init__(self):  # type: () -> None
        self.stop = self.last = False
        self.handed = 0
        self.empty = threading.Lock()
        self.full = threading.Lock()
        self.full.acquire()  # nothing is there yet

    def produce(self):  # type: () -> None
        """Fill whenever it is empty."""
        while not self.last:
            self.empty.acquire()
            self.last = self.stop  # then the consumer ends as well
            self.full.release()

    def consume(self):  # type: () -> None
        """Empty whenever it is full."""
        while True:
            self.full.acquire()
            if self.last:
                return
            self.handed += 1
            self.empty.release()

    def end(self):  # type: () -> None
        """Let both see that it is over."""
        self.stop = True


class ConditionPair(object):
    """The same with a condition, as most programs would write it."""

    def __init__(self):  # type: () -> None
        self.stop = False
        self.handed = 0
        self.full = False
        self.changed = threading.Condition()

    def produce(self):  # type: () -> None
        """Fill whenever it is empty."""
        while not self.stop:
            with self.changed:
                while self.full and not self.stop:
                    self.changed.wait()
                self.full = True
                self.changed.notify()

    def consume(self):  # type: () -> None
        """Empty whenever it is full."""
        while not self.stop:
            with self.changed:
                while not self.full and not self.stop:
                    self.changed.wait()
                self.full = False
                self.handed += 1
                self.changed.notify()

    def end(self):  # type: () -> None
        """Let both see that it is over."""
        with self.changed:
            self.stop = True
            self.changed.notify_all()


def hand_overs(kind, seconds, hog):
    # type: (Callable[[], Pair], float, bool) -> float
    """Hand-overs per second of a pair, beside a hog or alone."""
    pair = kind()
    threads = [
        threading.Thread(target=pair.produce),
        threading.Thread(target=pair.consume),
    ]
    with Hog(hog):
        begun = clock()
        for thread in threads:
            thread.start()
        time.sleep(seconds)
        handed, took = pair.handed, clock() - begun
        pair.end()
        for thread in threads:
            thread.join()
    return handed / took


def processes(seconds):  # type: (float) -> float
    """Hand-overs per second of two processes, which share no GIL.

    A pipe to the child, a pipe back: again each waits for the other.
    """
    ours, theirs = os.pipe(), os.pipe()
    child = os.fork()
    if not child:
        os.close(ours[1])  # then the end of our process ends the child
        try:
            while os.read(ours[0], 1):
                os.write(theirs[1], b"!")
        finally:  # not a step further in the lab's code
            os._exit(0)
    handed, begun = 0, clock()
    while clock() - begun < seconds:
        os.write(ours[1], b"?")
        os.read(theirs[0], 1)
        handed += 1
    took = clock() - begun
    for end in ours + theirs:
        os.close(end)
    os.waitpid(child, 0)
    return handed / took


# --- A thread that has to answer ------------------------------------


def answer_ms(hog):  # type: (bool) -> float
    """Milliseconds a thread takes to answer a byte; the median.

    Another process asks, so that asking needs no GIL of ours.
    """
    ours, theirs = socket.socketpair()
    child = os.fork()
    if not child:
        ours.close()
        ask(theirs)
    theirs.close()
    median = []  # type: List[float]
    thread = threading.Thread(target=answer, args=(ours, median))
    with Hog(hog):
        thread.start()
        thread.join()
    ours.close()
    os.waitpid(child, 0)
    if not median:
        raise LabError("the process that asks has ended early")
    return median[0]


def answer(sock, median):
    # type: (socket.socket, List[float]) -> None
    """Send each byte back; at the end comes the median."""
    while True:
        data = sock.recv(100)
        if len(data) != 1:
            median.extend(json.loads(data.decode() or "[]"))
            return
        sock.sendall(data)


def ask(sock):  # type: (socket.socket) -> NoReturn
    """In a process of its own: send a byte, wait for it, again."""
    times = []
    try:
        for _ in range(PINGS):
            time.sleep(PING_PAUSE)
            begun = clock()
            sock.sendall(b"?")
            if not sock.recv(1):
                break  # our lab has been stopped
            times.append(1000 * (clock() - begun))
        middle = sorted(times)[len(times) // 2]
        sock.sendall(json.dumps([middle]).encode())
    finally:  # not a step further in the lab's code
        os._exit(0)


def switch_often(interval):  # type: (float) -> float
    """Set how soon a computing thread is asked for the GIL."""
    if OLD:
        old = getattr(sys, "getcheckinterval")()  # type: float
        getattr(sys, "setcheckinterval")(int(interval))
    else:
        old = sys.getswitchinterval()
        sys.setswitchinterval(interval)
    return old


# --- A web server with a pool of threads ----------------------------


def pool_server(hog):  # type: (bool) -> None
    """Ten threads accept and answer until somebody ends the process."""
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    print(listener.getsockname()[1])
    sys.stdout.flush()
    with Hog(hog):
        threads = [
            threading.Thread(target=answer_all, args=(listener,))
            for _ in range(POOL)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()


def answer_all(listener):  # type: (socket.socket) -> None
    """What each thread of the pool does."""
    while True:
        sock, _ = listener.accept()
        try:
            head = b""
            data = b"?"
            while data and b"\r\n\r\n" not in head:
                data = sock.recv(4096)
                head += data
            sock.sendall(ANSWER)
        except (OSError, socket.error):
            pass  # the client is gone
        finally:
            sock.close()


def requests_per_second(clients, seconds, hog):
    # type: (int, float, bool) -> float
    """What ab says of the pool with so many clients."""
    words = [sys.executable, os.path.abspath(__file__), "--serve"]
    server = subprocess.Popen(
        words + ["--hog"] * hog, stdout=subprocess.PIPE
    )
    try:
        assert server.stdout
        port = int(server.stdout.readline())
        return load(port, clients, seconds)
    except ValueError:
        raise LabError("the pool's server did not start")
    finally:
        server.kill()
        server.communicate()


def load(port, clients, seconds):
    # type: (int, int, float) -> float
    """Run ab for some whole seconds."""
    whole = "{0:.0f}".format(math.ceil(AB_TIMES * seconds))
    ab = subprocess.Popen([
        "ab", "-q", "-r", "-t", whole, "-n", "1000000",
        "-c", str(clients), "http://127.0.0.1:{0}/".format(port),
    ], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    said = ab.communicate()[0].decode("ascii", "replace")
    found = re.search(r"Requests per second: +([0-9.]+)", said)
    failed = re.search(r"Failed requests: +([0-9]+)", said)
    # What the end of its time cuts short may count as failed.
    if not found or (failed and int(failed.group(1)) > clients):
        last = (said.strip().splitlines() or ["nothing"])[-1]
        raise LabError("ab did not measure: {0}".format(last))
    return float(found.group(1))


# --- The table ------------------------------------------------------

HAND_OVERS = (
    ("lock", LockPair, False),
    ("lock_hog", LockPair, True),
    ("condition", ConditionPair, False),
    ("condition_hog", ConditionPair, True),
)
LABELS = {
    "efficiency": "two computing threads do, times the work of one",
    "efficiency_processes": "  two processes",
    "efficiency_interpreters": "  two interpreters of one process",
    "lock": "hand-overs/s with a Lock",
    "lock_hog": "  beside a computing thread",
    "condition": "hand-overs/s with a Condition",
    "condition_hog": "  beside a computing thread",
    "processes": "hand-overs/s of two processes, through pipes",
    "answer": "ms until a thread answers",
    "answer_hog": "  beside a computing thread",  # and an interval
    "pool_1": "requests/s of a pool of ten threads, 1 client",
    "pool_10": "  10 clients",
    "pool_1_hog": "  1 client, beside a computing thread",
    "pool_10_hog": "  10 clients, beside a computing thread",
}
PARTS = ("compute", "hand-over", "answer", "pool")


def label(name):  # type: (str) -> str
    """How a figure is called in the table."""
    kind, _, interval = name.rpartition("_")
    if kind != "answer_hog":
        return LABELS[name]
    return "{0}, switch interval {1:g} {2}".format(
        LABELS[kind],
        SWITCH[interval] * (1 if OLD else 1000),
        "steps" if OLD else "ms",
    )


def measure(parts, seconds, figures):
    # type: (List[str], float, Figures) -> None
    """Add one round to the figures."""

    def add(name, value):  # type: (str, float) -> None
        figures.setdefault(name, []).append(value)

    if "compute" in parts:
        add("efficiency", efficiency(seconds, time_threads))
        add("efficiency_processes", efficiency(seconds, time_processes))
        if interpreters:
            add("efficiency_interpreters",
                efficiency(seconds, time_interpreters))
    if "hand-over" in parts:
        for name, kind, hog in HAND_OVERS:
            add(name, hand_overs(kind, seconds, hog))
        add("processes", processes(seconds))
    if "answer" in parts:
        add("answer", answer_ms(False))
        for word in ("short", "usual", "long"):
            before = switch_often(SWITCH[word])
            try:
                add("answer_hog_" + word, answer_ms(True))
            finally:
                switch_often(before)
    if "pool" in parts:
        for hog in (False, True):
            for clients in (1, 10):
                name = "pool_{0}_hog" if hog else "pool_{0}"
                rate = requests_per_second(clients, seconds, hog)
                add(name.format(clients), rate)


def use_cpus(number):  # type: (int) -> None
    """Let this process and its children have so few CPUs only."""
    try:
        with open("/proc/self/status") as status:
            found = re.search(r"Cpus_allowed_list:\s(.*)", status.read())
    except EnvironmentError:
        raise LabError("--cpus needs Linux; leave it out here")
    allowed = []  # type: List[int]
    for part in found.group(1).split(",") if found else ():
        first, _, last = part.partition("-")  # such as 0-3,8
        allowed += range(int(first), int(last or first) + 1)
    if len(allowed) < number:
        raise LabError(
            "--cpus {0} cannot be: this process has {1}".format(
                number, len(allowed)
            )
        )
    some = ",".join(str(cpu) for cpu in allowed[:number])
    taskset = subprocess.Popen(
        ["taskset", "-pc", some, str(os.getpid())],
        stdout=subprocess.PIPE,
    )
    taskset.communicate()


def show(figures):  # type: (Figures) -> None
    """Print the medians, with the lowest and highest beside them."""
    width = max(len(label(name)) for name in figures)
    for name in figures:
        values = sorted(figures[name])
        line = label(name).ljust(width)
        line += "  {0:>10,.2f}".format(values[len(values) // 2])
        if len(values) > 1:
            line += "   {0:,.2f} to {1:,.2f}".format(
                values[0], values[-1]
            )
        print(line)


class Parser(argparse.ArgumentParser):
    """Says in one sentence what is wrong."""

    def error(self, message):  # type: (str) -> NoReturn
        """Print the sentence, end with status 2."""
        said = "{0}: {1} (--help explains)\n"
        self.exit(2, said.format(self.prog, message))
        raise SystemExit(2)


def parse():  # type: () -> argparse.Namespace
    """The options; ends with status 2 if they make no sense."""
    parser = Parser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--only", action="append", choices=PARTS,
        help="measure only this; may be given several times")
    add("--rounds", type=int, default=3,
        help="measure everything so often, show medians (%(default)s)")
    add("--seconds", type=float, default=SECONDS,
        help="that one measurement lasts (%(default)s); ab takes four "
        "times as long")
    add("--cpus", type=int, default=0, metavar="N",
        help="use only so many CPUs, Linux (default: all there are)")
    add("--json", action="store_true",
        help="print the figures as JSON")
    # How the lab starts its own web server.
    add("--serve", action="store_true", help=argparse.SUPPRESS)
    add("--hog", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if not 1 <= options.rounds <= 50:
        parser.error("--rounds is a number from 1 to 50")
    if not 0.05 <= options.seconds <= 60:
        parser.error("--seconds is a number from 0.05 to 60")
    return options


def main():  # type: () -> int
    """Measure as asked; returns the exit status."""
    try:
        options = parse()
        if options.serve:
            pool_server(options.hog)
        run(options)
        return 0
    except LabError as error:
        return leave(1, "lab.py: {0}\n".format(error))
    except (EnvironmentError, RuntimeError) as error:
        # No socket, no process, no thread: this machine has no more.
        said = "lab.py: this machine does not let us: {0}\n"
        return leave(1, said.format(error))
    except KeyboardInterrupt:
        return leave(130, "")


def leave(status, said):  # type: (int, str) -> NoReturn
    """End at once, whatever our threads are still doing."""
    sys.stderr.write(said)
    sys.stderr.flush()
    os._exit(status)


def run(options):  # type: (argparse.Namespace) -> None
    """Measure all rounds, print the table or the JSON."""
    if options.cpus:
        use_cpus(options.cpus)
    parts = list(options.only or PARTS)
    folders = os.environ.get("PATH", "").split(os.pathsep)
    if "pool" in parts and not any(
        os.access(os.path.join(folder, "ab"), os.X_OK)
        for folder in folders
    ):
        parts.remove("pool")
        print("ab is missing, so no web server is measured: on Debian "
              "and Ubuntu, apt install apache2-utils", file=sys.stderr)
    gil = bool(getattr(sys, "_is_gil_enabled", lambda: True)())
    python = " ".join((
        platform.python_implementation(), platform.python_version()))
    figures = collections.OrderedDict()  # type: Figures
    for one in range(options.rounds):
        print("{0}: round {1} of {2}".format(
            python, one + 1, options.rounds), file=sys.stderr)
        measure(parts, options.seconds, figures)
    if options.json:
        print(json.dumps({
            "python": python, "gil": gil, "cpus": options.cpus,
            "figures": figures,
        }))
        return
    print("{0}, {1} a GIL, {2}".format(
        python, "with" if gil else "without", platform.platform()))
    show(figures)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
