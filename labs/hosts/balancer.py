"""HAProxy in front of the hosts: its configuration, its runtime socket."""

import csv
import io
import os
import re
import shutil
import socket
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from labs.hosts.load import Plan
from tools.bench.preflight import output_of
from tools.common.launch import Launched, LaunchError, eventually, scrub

# Lines of its log.
DOWN = r"Server hosts/{} is (going )?DOWN"
NOBODY = ".*has no server available"
# Users of Debian do not find what is in sbin.
PLACES = os.pathsep.join(
    [os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"]
)
START_SECONDS = 30.0
DRAIN_SECONDS = 10.0
NO_CHECK = ""
CHECK = "check inter 500ms fall 2 rise 1"  # over TCP, unless httpchk


@dataclass(frozen=True)
class Front(Plan):
    """A balancer and the load that comes to it.

    variant: what sets it apart in its experiment; check: how a host is
    looked after; lines: more lines of the configuration (a later one
    wins); server: more options of each host; algorithm: which host gets
    the next request; fail_open: if no host is up, send requests to all of
    them; drained: it is told before a host is stopped.
    """

    variant: str
    check: str = CHECK
    lines: tuple[str, ...] = ()
    server: str = ""
    algorithm: str = "roundrobin"
    fail_open: bool = False
    drained: bool = False

    def configuration(
        self, hosts: Sequence[tuple[str, str]], listen: str, admin: str
    ) -> str:
        """The text for HAProxy.

        hosts: name and address:port of each; listen: address:port; admin:
        the path of the runtime socket.
        """
        words = f"{self.server} {self.check}".strip()
        return "\n    ".join([
            "global",
            "log stdout format iso local0",
            f"stats socket {admin} mode 600 level admin",
            "nbthread 1\ndefaults",
            "mode http",
            "log global",
            "option httplog",
            "timeout connect 1s",
            "timeout client 30s",
            "timeout server 10s",
            "timeout http-request 10s\nlisten hosts",
            f"bind {listen}",
            "http-request set-log-level silent",  # only what hosts do
            f"balance {self.algorithm}",
            *self.lines,
            *(f"server {name} {at} {words}" for name, at in hosts),
            *["option allbackups"] * self.fail_open,
            *(
                f"server {name}-open {at} backup"
                for name, at in hosts if self.fail_open
            ),
        ]) + "\n"  # fmt: skip


def program() -> str:
    """Where HAProxy is, or would be."""
    return shutil.which("haproxy", path=PLACES) or "haproxy"


def version() -> str | None:
    """Its version, as "2.6.12"; None if it cannot be run."""
    found = re.search(r"version ([\d.]+\d)", output_of(program(), "-v"))
    return found[1] if found else None


def moments(log: str, pattern: str) -> list[float]:
    """When it wrote lines that match, in Unix time."""
    lines = (line.partition(" ") for line in log.splitlines())
    return [
        datetime.fromisoformat(moment).timestamp()
        for moment, _, text in lines if re.match(pattern, text)
    ]


class Balancer(Launched):
    """A running HAProxy."""

    def __init__(
        self, front: Front, hosts: Sequence[tuple[str, str]],
        address: tuple[str, int],
    ) -> None:
        """Start it; its files are in /run. Raises LaunchError."""
        self.front, self.address = front, address
        self.admin = f"/run/{address[1]}.sock"
        self.text = front.configuration(
            hosts, f"{address[0]}:{address[1]}", self.admin
        )
        file = Path(f"/run/{address[1]}.cfg")
        file.write_text(self.text)
        super().__init__([program(), "-db", "-f", str(file)])
        started = eventually(self._started, START_SECONDS)
        if self.status() is not None or not started:
            raise LaunchError(f"HAProxy: {self.last_words()}")

    def _started(self) -> bool:
        try:
            return bool(self.ask("show info"))
        except OSError:
            return self.status() is not None

    def ask(self, command: str) -> str:
        """What the runtime socket says to a command."""
        with socket.socket(socket.AF_UNIX) as admin:
            admin.connect(self.admin)
            admin.sendall(command.encode() + b"\n")
            return b"".join(iter(lambda: admin.recv(65536), b"")).decode()

    def state(self, host: str) -> dict[str, str]:
        """What HAProxy knows of a host, by HAProxy's names of it.

        Among them: status (UP, DOWN, DRAIN, "no check"), scur (requests
        under way), stot (all that it got).
        """
        rows = csv.DictReader(io.StringIO(self.ask("show stat")[2:]))
        return next(row for row in rows if row["svname"] == host)

    def drain(self, host: str) -> None:
        """Send it nothing new, and wait for the end of what is there."""
        self.ask(f"set server hosts/{host} state drain")
        eventually(lambda: self.state(host)["scur"] == "0", DRAIN_SECONDS)

    def ready(self, host: str) -> None:
        """Send it requests again."""
        self.ask(f"set server hosts/{host} state ready")

    def is_up(self, host: str) -> bool:
        """Does it get requests?"""
        return self.state(host)["status"].startswith(("UP", "no check"))

    def figures(
        self, hosts: Sequence[str], since: float | None
    ) -> dict[str, float]:
        """Each host's share; how often they were out; when the last was.

        since: from when that counts (monotonic clock), if it does.
        """
        log = self.output
        given = {host: int(self.state(host)["stot"]) for host in hosts}
        total = max(1, sum(given.values()))
        found = {f"share_{h}": round(n / total, 3) for h, n in given.items()}
        found["times_out"] = len(moments(log, DOWN.format(r"h\d")))
        found["times_all_out"] = len(moments(log, NOBODY))
        if (out := moments(log, DOWN.format(hosts[-1]))) and since:
            begun = time.time() - time.monotonic() + since
            found["out_seconds"] = round(out[0] - begun, 2)
        return found

    def raw(self) -> str:
        """The configuration, and what HAProxy has said."""
        return scrub(f"{self.text}\n{self.output}")
