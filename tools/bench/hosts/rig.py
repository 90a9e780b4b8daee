"""The rig: hosts, cables, a balancer and clients, on one machine.

One bridge in a network namespace, where the balancer and the clients are;
a namespace for each host, with a cable (a veth pair) to the bridge. Linux
allows that to root, and to others in a user namespace. Where neither can
be had, ports of the loopback interface serve: there is no cable to pull.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tools.bench.hosts.balancer import Balancer, Balancing
from tools.bench.hosts.load import Plan, Row
from tools.bench.hosts.tap import Tap, arrivals
from tools.bench.server import free_port
from tools.common.launch import (
    Launched,
    LaunchError,
    eventually,
    scrub,
)
from tools.data.results import Run
from tools.servers import by_name

BRIDGE = "10.77.0.1"
PORT, WEB_PORT = 8000, 8080
SETTLED_SECONDS = 5.0  # until the balancer holds all hosts for healthy
MOST_REQUESTS = 100_000  # of a load: each has numbers of its own
LATE_SECONDS = 1.0  # an answer that took longer is late
LOAD = "tools.bench.hosts.load"
PATIENCE_SECONDS = 60.0  # with what is slow because the machine is busy


@dataclass(frozen=True, kw_only=True)
class Case:
    """One thing to measure: three hosts, a balancer, a load.

    server, delay, options: what each host runs; last_delay: of the last
    host, if it is not like the others; variant: what sets the case apart
    from the others of its experiment; phases: requests per second, and
    for how many seconds; the rest of the load as in `Plan`; cable: cannot
    be had without one; beside: more balancers in front of the same hosts,
    each with a load of its own.
    """

    server: str
    variant: str
    phases: tuple[tuple[float, float], ...]
    delay: float = 0.1
    last_delay: float | None = None
    options: tuple[str, ...] = ()
    hosts: int = 3
    balancing: Balancing = field(default_factory=Balancing)
    keep: bool = False
    timeout: float = 9.0
    tries: int = 1
    seed: int = 1
    cable: bool = False
    beside: tuple["Case", ...] = ()

    @property
    def all(self) -> tuple["Case", ...]:
        """This one, and those beside it."""
        return (self, *self.beside)

    @property
    def seconds(self) -> float:
        """How long the load takes."""
        return sum(seconds for _, seconds in self.phases)


# The network --------------------------------------------------------------


def entry() -> list[str]:
    """The command in front of one that is to run in namespaces."""
    flags = "-nmpf" if os.geteuid() == 0 else "-Urnmpf"
    return ["unshare", flags, "--mount-proc", "--kill-child"]


def build(hosts: int) -> None:
    """Make the bridge, the hosts and their cables, in new namespaces.

    Raises LaunchError with what the system says.
    """
    words = (
        "mount -t tmpfs none /run\n mkdir /run/netns\n ip link set lo up\n"
        "ip link add br0 type bridge\n"
        f"ip addr add {BRIDGE}/24 dev br0\n ip link set br0 up\n"
    )
    for number in range(1, hosts + 1):
        host, cable = f"h{number}", f"cable{number}"
        words += (
            f"ip netns add {host}\n"
            f"ip link add {cable} type veth peer name eth0 netns {host}\n"
            f"ip link set {cable} master br0 up\n"
            f"ip -n {host} link set lo up\n"
            f"ip -n {host} addr add {BRIDGE}{number}/24 dev eth0\n"
            f"ip -n {host} link set eth0 up\n"
        )
    for line in words.splitlines():
        run(*line.split())


def run(*command: str) -> None:
    """Run a command of the system. Raises LaunchError with what it says."""
    try:
        subprocess.run(command, check=True, capture_output=True, text=True)
    except OSError as error:
        raise LaunchError(f"{command[0]}: {error.strerror}") from error
    except subprocess.CalledProcessError as error:
        said = error.stderr.strip() or f"status {error.returncode}"
        raise LaunchError(f"{' '.join(command)}: {said}") from error


# What stands in it --------------------------------------------------------


class Host:
    """A host, and the server on it."""

    def __init__(self, number: int, case: Case, cabled: bool) -> None:
        """Start its server. Raises LaunchError."""
        self.case = case
        self.name, self.cabled = f"h{number}", cabled
        self.number = number
        if cabled:
            self.address, self.port = f"{BRIDGE}{number}", PORT
        else:
            linux = sys.platform == "linux"  # has all of 127.0.0.0/8
            self.address = f"127.0.0.1{number}" if linux else "127.0.0.1"
            self.port = free_port()
        self.server: Launched | None = None
        self.tap = Tap()
        if cabled:
            self.tap.listen(f"cable{number}")
        self.start()

    def start(self) -> None:
        """Start a server on it. Raises LaunchError."""
        case, server = self.case, by_name(self.case.server)
        last = self.number == case.hosts and case.last_delay is not None
        delay = case.last_delay if last else case.delay
        inside = ["ip", "netns", "exec", self.name] if self.cabled else []
        self.server = Launched([
            *inside, sys.executable, str(server.path), "--host", self.address,
            "--port", str(self.port), "--delay", f"{delay:g}",
            *server.options, *case.options,
        ])
        try:
            self.server.wait_until_ready(PATIENCE_SECONDS)
        except BaseException:
            self.kill()
            raise

    def signal(self, number: int) -> None:
        """Send a signal to its server."""
        if self.server:
            self.server.signal(number)

    def stop(self, seconds: float = PATIENCE_SECONDS) -> float:
        """SIGTERM, and wait for the end; how many seconds that took."""
        begun = time.monotonic()
        self.signal(signal.SIGTERM)
        if self.server and self.server.wait(seconds) is None:
            raise LaunchError(f"{self.name} did not stop")
        took = time.monotonic() - begun
        self.kill()
        return took

    def kill(self) -> None:
        """End its server by force."""
        if self.server:
            self.server.kill()
            self.server = None

    def pull(self) -> None:
        """Pull its cable."""
        run("ip", "link", "set", f"cable{self.number}", "down")

    def plug(self) -> None:
        """Plug its cable in again."""
        run("ip", "link", "set", f"cable{self.number}", "up")


class Load(Launched):
    """A load under way (see `tools.bench.hosts.load`)."""

    def __init__(self, plan: Plan) -> None:
        """Begin. Raises LaunchError."""
        super().__init__([sys.executable, "-m", LOAD, plan.as_json()])
        self.plan = plan
        try:
            eventually(self._started, PATIENCE_SECONDS)
            if "\n" not in self.output:
                raise LaunchError(f"the load: {self.last_words()}")
        except BaseException:
            self.kill()
            raise
        first = json.loads(self.output.splitlines()[0])
        self.begun: float = first["begun"]  # of the monotonic clock
        self.wall: float = first["wall"]  # the same moment, Unix time

    def _started(self) -> bool:
        return "\n" in self.output or self.status() is not None

    @property
    def now(self) -> float:
        """Seconds since its first request was due."""
        return time.monotonic() - self.begun

    def reach(self, seconds: float) -> None:
        """Wait until it is so many seconds old."""
        time.sleep(max(0.0, seconds - self.now))

    def result(self) -> "Answers":
        """Wait for its end; what became of its requests."""
        most = sum(s for _, s in self.plan.phases)
        most += self.plan.timeout * self.plan.tries + PATIENCE_SECONDS
        if self.wait(most) != 0:
            raise LaunchError(f"the load: {self.last_words()}")
        data = json.loads(self.output.splitlines()[1])
        rows = sorted(tuple(row) for row in data["rows"])
        return Answers(rows, data["lag"])


@dataclass
class Answers:
    """What became of the requests of a load; see `load.Load`."""

    rows: list[Row]
    lag: float = 0.0

    def between(self, since: float, until: float) -> "Answers":
        """Those due in this time (seconds of the load)."""
        rows = [row for row in self.rows if since <= row[0] < until]
        return Answers(rows, self.lag)

    @property
    def good(self) -> list[Row]:
        """Those with an answer."""
        return [row for row in self.rows if row[2] == "ok"]

    @property
    def lost(self) -> Counter[str]:
        """How many were lost, by what became of them."""
        return Counter(row[2] for row in self.rows if row[2] != "ok")

    @property
    def late(self) -> int:
        """How many were answered late."""
        return sum(row[1] > LATE_SECONDS for row in self.good)

    def latencies(self) -> dict[str, float]:
        """Milliseconds within which a share of the answers came."""
        values = sorted(row[1] for row in self.good)
        if not values:
            return {}
        last = len(values) - 1
        marks = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}
        return {
            name: round(1000 * values[round(mark * last)], 1)
            for name, mark in marks.items()
        }

    def shares(self) -> dict[str, float]:
        """Host -> its share of the answers."""
        hosts = Counter(row[3] for row in self.good)
        return {h: hosts[h] / hosts.total() for h in sorted(hosts)}

    def per_second(self, seconds: float) -> list[float]:
        """How many good answers came in each second of the load."""
        came = Counter(int(row[0] + row[1]) for row in self.good)
        return [came[second] for second in range(int(seconds))]


@dataclass
class Measured:
    """What one run of a case gives: answers, and what else is to keep.

    extra, series, texts: more for `Run`; note: for its raw output.
    """

    responses: Answers
    extra: dict[str, float] = field(default_factory=dict)
    series: dict[str, list[float]] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    note: str = ""


class Rig:
    """Hosts, balancer and loads of one run; at the end all are gone."""

    def __init__(
        self, case: Case, cabled: bool, first: "Rig | None" = None,
        number: int = 0,
    ) -> None:
        """Build it, start all; wait until hosts are up. See `Case`.

        first: the rig that this one stands beside, and whose hosts it
        uses; number: its place there, from 1. Raises LaunchError.
        """
        self.case, self.cabled, self.number = case, cabled, number
        self.hosts: list[Host] = first.hosts if first else []
        self.loads: list[Load] = []
        if cabled and not first:
            build(case.hosts)  # makes /run a new, empty folder of memory
        self._folder = tempfile.TemporaryDirectory(
            prefix="hosts-", dir="/run" if cabled else None
        )
        self.address = (
            (BRIDGE, WEB_PORT + number) if cabled
            else ("127.0.0.1", free_port())
        )
        self.beside = [
            Rig(other, cabled, self, at)
            for at, other in enumerate(case.beside, 1)
        ]

    def __enter__(self) -> Self:
        try:
            while len(self.hosts) < self.case.hosts:
                self.hosts.append(self.host(len(self.hosts) + 1))
            self.balance()
            for rig in self.beside:
                rig.__enter__()
        except BaseException:
            self.__exit__()
            raise
        return self

    def host(self, number: int) -> Host:
        """Start a host."""
        return Host(number, self.case, self.cabled)

    def balance(self) -> None:
        """Start the balancer, and wait until all hosts are up."""
        self.balancer = balancer = Balancer(
            self.case.balancing,
            [(h.name, f"{h.address}:{h.port}") for h in self.hosts],
            self.address, self.folder,
        )
        eventually(
            lambda: all(balancer.is_up(host.name) for host in self.hosts),
            SETTLED_SECONDS,
        )

    def load(self, **other: Any) -> Load:
        """Begin the load of the case; other: what is not as it says."""
        case = self.case
        plan = {
            "phases": case.phases, "keep": case.keep, "tries": case.tries,
            "timeout": case.timeout, "seed": case.seed,
            "first": self.numbers.start, **other,
        }
        load = Load(Plan(*self.address, **plan))
        self.loads.append(load)
        return load

    @property
    def folder(self) -> Path:
        """For files: gone with the rig."""
        return Path(self._folder.name)

    @property
    def numbers(self) -> range:
        """Of the requests of its load."""
        first = self.number * MOST_REQUESTS
        return range(first, first + MOST_REQUESTS)

    @property
    def all(self) -> list["Rig"]:
        """This one, and those beside it."""
        return [self, *self.beside]

    def load_all(self) -> list[Load]:
        """Begin the loads of them all."""
        with ThreadPoolExecutor() as pool:
            return list(pool.map(Rig.load, self.all))

    def __exit__(self, *failure: object) -> None:
        for rig in self.beside:
            rig.__exit__()
        for host in self.hosts:
            host.signal(signal.SIGCONT)
            host.kill()
        for process in (*self.loads, getattr(self, "balancer", None)):
            if process:
                process.kill()
        self._folder.cleanup()

    def figures(self, measured: Measured) -> Run:
        """All that is kept of a run."""
        responses, case = measured.responses, self.case
        lost = responses.lost
        one = Run(self.command())
        one.requests = len(responses.good)
        one.failed = lost.total()
        one.seconds = round(case.seconds, 3)
        one.requests_per_second = round(one.requests / case.seconds, 2)
        one.latency_ms = responses.latencies()
        one.extra = {
            "sent": len(responses.rows), "late": responses.late,
            "lag_ms": round(1000 * responses.lag, 1),
            **{f"lost_{kind}": many for kind, many in sorted(lost.items())},
        }
        if self.cabled:
            taps = [host.tap for host in self.hosts]
            one.extra["arrived"], one.extra["twice"] = arrivals(
                taps, self.numbers
            )
        one.extra |= measured.extra
        one.series, one.texts = measured.series, measured.texts
        return one

    def command(self) -> str:
        """What was run, in lines for a person."""
        case = self.case
        server = by_name(case.server)
        words = " ".join([
            "python3", server.file, f"--delay {case.delay:g}",
            *server.options, *case.options,
        ])
        if case.last_delay is not None:
            words += f", on the last --delay {case.last_delay:g}"
        phases = ", then ".join(f"{r:g}/s for {s:g} s" for r, s in case.phases)
        more = ", connections kept" * case.keep
        if case.tries > 1:
            more += f", {case.tries} tries of {case.timeout:g} s"
        return (
            f"{case.hosts} x {words}\nhaproxy -f haproxy.cfg\n"
            f"load: {phases}{more}"
        )

    def raw(self, note: str) -> str:
        """The configuration, what HAProxy said, and a note."""
        said = "\n".join(text for _, text in self.balancer.notices)
        return scrub(f"{self.balancer.text}\n{said}\n{note}")
