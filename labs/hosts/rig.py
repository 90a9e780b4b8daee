"""The rig: hosts, cables, balancers and their loads, on one machine.

One bridge in a network namespace, where the balancers and the clients
are; a namespace for each host, with a cable (a veth pair) to the bridge.
Linux allows that to root, and to others in a user namespace. Nothing here
cleans up: the namespaces end with the first process in them.
"""

import io
import itertools
import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property, partial
from statistics import mean

from labs.hosts.balancer import Balancer, Front
from labs.hosts.load import OK, Plan, Row
from labs.hosts.tap import Tap
from tools.common.launch import Launched, LaunchError, eventually, scrub
from tools.data.results import Run
from tools.servers import by_name

BRIDGE = "10.77.0.1"
PORT, WEB_PORT = 8000, 8080
MOST_REQUESTS = 100_000  # of a load: each has numbers of its own
PATIENCE_SECONDS = 60.0  # with what is slow because the machine is busy

# What happens to a host while the load is under way.
KILLED, PULLED, STOPPED = "kill -9", "cable pulled", "stopped"
SIGNALS = {KILLED: signal.SIGKILL, STOPPED: signal.SIGSTOP}
RESTART = "restart"  # of all hosts, one after the other
AT_SECONDS = 2.0  # of the load: when it happens
SETTLE_SECONDS, REST_SECONDS = 1.0, 0.4  # before a restart, after it
LAST_SECONDS = 3.0  # of the load: no restart begins any more
UP_SECONDS = 5.0  # until all balancers hold a host for healthy again
END_SECONDS = 5.0  # of the load: how it is at the end
MARKS = {"p50": 0.5, "p90": 0.9, "p99": 0.99, "max": 1.0}


@dataclass(frozen=True)
class Case:
    """Hosts, and the balancers that stand before them at the same time.

    server, options: what each host runs; delays: of each host; event:
    what happens.
    """

    server: str
    fronts: tuple[Front, ...]
    delays: tuple[float, ...] = (0.1, 0.1, 0.1)
    options: tuple[str, ...] = ()
    event: str = ""

    @property
    def seconds(self) -> float:
        """How long its loads take."""
        return max(front.seconds for front in self.fronts)


# The network --------------------------------------------------------------


def entry() -> list[str]:
    """The command in front of one that is to run in namespaces."""
    flags = "-nmpf" if os.geteuid() == 0 else "-Urnmpf"
    return ["unshare", flags, "--mount-proc", "--kill-child"]


def build(hosts: int) -> None:
    """Make the bridge, the hosts and their cables, in new namespaces.

    Raises LaunchError with what the system says.
    """
    numbers = " ".join(str(number) for number in range(1, hosts + 1))
    run(f"""
        mount -t tmpfs none /run
        mkdir /run/netns
        ip link set lo up
        ip link add br0 type bridge
        ip addr add {BRIDGE}/24 dev br0
        ip link set br0 up
        for n in {numbers}; do
            ip netns add h$n
            ip link add cable$n type veth peer name eth0 netns h$n
            ip link set cable$n master br0 up
            ip -n h$n link set lo up
            ip -n h$n addr add {BRIDGE}$n/24 dev eth0
            ip -n h$n link set eth0 up
        done
    """)


def run(script: str) -> None:
    """Run commands of a shell. Raises LaunchError with what one says."""
    done = subprocess.run(
        ["sh", "-ec", script], check=False, capture_output=True, text=True
    )
    if done.returncode:
        raise LaunchError(done.stderr.strip() or f"status {done.returncode}")


# What stands in it --------------------------------------------------------


class Host:
    """A host, and the server on it."""

    def __init__(self, case: Case, number: int) -> None:
        """Start its server. Raises LaunchError."""
        self.name, self.cable = f"h{number}", f"cable{number}"
        address, server = f"{BRIDGE}{number}", by_name(case.server)
        self.address = f"{address}:{PORT}"
        delay = f"{case.delays[number - 1]:g}"
        self.command = [
            "ip", "netns", "exec", self.name, sys.executable,
            str(server.path), "--host", address, "--port", str(PORT),
            "--delay", delay, *server.options, *case.options,
        ]
        self.start()

    def start(self) -> None:
        """Start a server on it. Raises LaunchError."""
        self.server = Launched(self.command)
        self.server.wait_until_ready(PATIENCE_SECONDS)

    def stop(self) -> float:
        """SIGTERM, and wait for the end; how many seconds that took."""
        begun = time.monotonic()
        self.server.signal(signal.SIGTERM)
        if self.server.wait(PATIENCE_SECONDS) is None:
            raise LaunchError(f"{self.name} did not stop")
        return time.monotonic() - begun

    def suffer(self, event: str) -> None:
        """Be killed or stopped, or lose the cable."""
        if event == PULLED:
            run(f"ip link set {self.cable} down")
        else:
            self.server.signal(SIGNALS[event])


class Load:
    """The load of a balancer, under way (see `labs.hosts.load`)."""

    def __init__(self, balancer: Balancer, first: int) -> None:
        """Begin; first: the number of its first request."""
        self.balancer, self.first, front = balancer, first, balancer.front
        plan = {each.name: getattr(front, each.name) for each in fields(Plan)}
        text = json.dumps([plan, balancer.address, first])
        self._output = subprocess.Popen(
            [sys.executable, "-m", "labs.hosts.load", text],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        ).stdout or io.StringIO()

    @cached_property
    def begun(self) -> float:
        """When its first request was due (monotonic clock)."""
        return float(self._output.readline())

    def reach(self, seconds: float) -> None:
        """Wait until it is so many seconds old."""
        time.sleep(max(0.0, self.begun + seconds - time.monotonic()))

    def result(self) -> tuple[list[Row], float]:
        """Wait for its end; its rows and its lag."""
        rows, lag = json.load(self._output)
        return [tuple(row) for row in rows], lag


class Rig:
    """The hosts and the balancers of a case."""

    def __init__(self, case: Case) -> None:
        """Build it, start all. Raises LaunchError."""
        self.case = case
        self.tap = Tap()
        build(len(case.delays))
        numbers = range(1, len(case.delays) + 1)
        self.hosts = [Host(case, number) for number in numbers]
        for host in self.hosts:
            self.tap.listen(host.cable)
        addresses = [(host.name, host.address) for host in self.hosts]
        self.balancers = [
            Balancer(front, addresses, (BRIDGE, WEB_PORT + number))
            for number, front in enumerate(case.fronts)
        ]

    def measure(self) -> list[Run]:
        """All loads, and what happens meanwhile; a run for each."""
        loads = [
            Load(balancer, number * MOST_REQUESTS)
            for number, balancer in enumerate(self.balancers)
        ]
        happened: float | None = max(load.begun for load in loads)
        more: dict[str, float] = {}
        if self.case.event == RESTART:
            happened, more = None, self._restart(loads[-1])
        elif self.case.event:
            loads[-1].reach(AT_SECONDS)
            happened = time.monotonic()
            self.hosts[-1].suffer(self.case.event)
        return [self._run(load, happened, more) for load in loads]

    def _restart(self, load: Load) -> dict[str, float]:
        """Restart all, one after the other, as often as there is time."""
        last = load.begun + self.case.seconds - LAST_SECONDS
        load.reach(SETTLE_SECONDS)
        stops: list[float] = []
        for host in itertools.cycle(self.hosts):
            if time.monotonic() > last and len(stops) >= len(self.hosts):
                break
            drained = [b for b in self.balancers if b.front.drained]
            for balancer in drained:
                balancer.drain(host.name)
            stops.append(host.stop())
            host.start()
            for balancer in drained:
                balancer.ready(host.name)
            eventually(partial(self._holds_up, host.name), UP_SECONDS)
            time.sleep(REST_SECONDS)
        took = round(mean(stops), 3)
        return {"restarts": len(stops), "stop_seconds": took}

    def _holds_up(self, host: str) -> bool:
        """Do all balancers hold this host for healthy?"""
        return all(balancer.is_up(host) for balancer in self.balancers)

    def _run(
        self, load: Load, happened: float | None, more: dict[str, float]
    ) -> Run:
        """Wait for the end of a load; all its figures."""
        rows, lag = load.result()
        one = figures(load.balancer.front, rows)
        command = scrub(shlex.join(self.hosts[0].command))
        one.command = f"{command}\nhaproxy -f haproxy.cfg"
        names = [host.name for host in self.hosts]
        one.extra |= {
            "lag_ms": round(1000 * lag, 1),
            **self.tap.figures(rows, load.first),
            **load.balancer.figures(names, happened), **more,
        }
        return one


def figures(plan: Plan, rows: Sequence[Row]) -> Run:
    """What the clients of a load have seen."""
    latencies = sorted(row[1] for row in rows if row[2] == OK)
    last = len(latencies) - 1
    lost = Counter(row[2] for row in rows if row[2] != OK)
    due = Counter(int(row[0]) for row in rows)
    came = Counter(int(row[0] + row[1]) for row in rows if row[2] == OK)
    seconds = range(int(plan.seconds))
    good: list[float] = [came[second] for second in seconds]
    one = Run("", requests=len(latencies), failed=lost.total())
    one.seconds = round(plan.seconds, 3)
    one.latency_ms = {
        name: round(1000 * latencies[round(mark * last)], 1)
        for name, mark in MARKS.items() if latencies
    }
    one.extra = {
        "sent": len(rows), "answered_per_second": mean(good[1:]),
        **{f"lost_{kind}": many for kind, many in sorted(lost.items())},
    }
    if len(plan.phases) == 3:  # as usual, a spike, as usual
        one.series = {"sent": [due[second] for second in seconds],
                      "good": good}
        (_, begin), (_, spike), _ = plan.phases
        for name, since, until in (
            ("during", begin, begin + spike),
            ("at_the_end", plan.seconds - END_SECONDS, plan.seconds),
        ):
            then = [row[2] for row in rows if since <= row[0] < until]
            share = 100 * then.count(OK) / max(1, len(then))
            one.extra[f"good_{name}_percent"] = round(share, 1)
    return one
