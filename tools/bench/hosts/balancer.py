"""HAProxy in front of the hosts: its configuration, its runtime socket."""

import csv
import io
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from tools.common.launch import Launched, LaunchError, eventually

# Users of Debian do not find what is in sbin.
PLACES = os.pathsep.join(
    [os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"]
)
OLDEST = (2, 6)  # that our configuration is for
MOST_PATH = 103  # bytes of a socket's path, on macOS; Linux takes 107
START_SECONDS = 30.0
DRAIN_SECONDS = 10.0
NO_CHECK = ""
CHECK = "check inter 500ms fall 2 rise 1"  # over TCP, unless httpchk


@dataclass(frozen=True)
class Balancing:
    """What sets a configuration apart; the rest is the same in all.

    algorithm: who gets the next request; check: how a host is looked
    after; server: more options of each host; backend, defaults, frontend:
    more lines of these sections (a later line wins); fail_open: if no host
    is up, send requests to all of them.
    """

    algorithm: str = "roundrobin"
    check: str = CHECK
    server: str = ""
    backend: tuple[str, ...] = ()
    defaults: tuple[str, ...] = ()
    frontend: tuple[str, ...] = ()
    fail_open: bool = False

    def configuration(
        self, hosts: Sequence[tuple[str, str]], listen: str, admin: Path
    ) -> str:
        """The text for HAProxy.

        hosts: name and address:port of each; listen: address:port; admin:
        the runtime socket.
        """
        return "\n".join([
            "global",
            "    log stdout format iso local0",
            f"    stats socket {admin} mode 600 level admin",
            "    nbthread 1",
            "defaults",
            "    mode http",
            "    log global",
            "    timeout connect 1s",
            "    timeout client 30s",
            "    timeout server 10s",
            "    timeout http-request 10s",
            *(f"    {line}" for line in self.defaults),
            "frontend web",
            f"    bind {listen}",
            # Status, how it ended, host, tries again, number.
            '    log-format "R %ST %tsc %s %rc %HU"',
            *(f"    {line}" for line in self.frontend),
            "    default_backend hosts",
            "backend hosts",
            f"    balance {self.algorithm}",
            "    http-response set-header X-Host %s",
            *(f"    {line}" for line in self.backend),
            *(
                f"    server {name} {address} {self.server} {self.check}"
                .rstrip() for name, address in hosts
            ),
            *["    option allbackups"] * self.fail_open,
            *(
                f"    server {name}-open {address} backup"
                for name, address in hosts if self.fail_open
            ),
            "",
        ])  # fmt: skip


def program() -> str | None:
    """Where HAProxy is; None if there is none."""
    return shutil.which("haproxy", path=PLACES)


def version() -> str | None:
    """Its version, as "2.6.12"; None if it cannot be run."""
    haproxy = program()
    if haproxy is None:
        return None
    said = subprocess.run(
        [haproxy, "-v"], capture_output=True, text=True, check=False
    ).stdout
    found = re.match(r"HA-?Proxy version (\d+\.\d+(?:\.\d+)?)", said)
    return found[1] if found else None


class Balancer(Launched):
    """A running HAProxy."""

    def __init__(
        self, balancing: Balancing, hosts: Sequence[tuple[str, str]],
        address: tuple[str, int], folder: Path,
    ) -> None:
        """Start it; its files are in folder. Raises LaunchError."""
        self.admin = folder / "admin.sock"
        if len(os.fsencode(self.admin)) > MOST_PATH:
            raise LaunchError(
                f"the path {folder} is too long for a socket: set TMPDIR to "
                "a shorter one"
            )
        self.address = address
        self.text = balancing.configuration(
            hosts, f"{address[0]}:{address[1]}", self.admin
        )
        file = folder / "haproxy.cfg"
        file.write_text(self.text)
        super().__init__([program() or "haproxy", "-db", "-f", str(file)])
        try:
            started = eventually(self._started, START_SECONDS)
            if self.status() is not None or not started:
                raise LaunchError(f"HAProxy: {self.last_words()}")
        except BaseException:
            self.kill()
            raise

    def _started(self) -> bool:
        try:
            return bool(self.ask("show info"))
        except OSError:
            return self.status() is not None

    def ask(self, command: str) -> str:
        """What the runtime socket answers to a command."""
        with socket.socket(socket.AF_UNIX) as admin:
            admin.connect(str(self.admin))
            admin.sendall(command.encode() + b"\n")
            return b"".join(iter(lambda: admin.recv(65536), b"")).decode()

    def state(self, host: str) -> dict[str, str]:
        """What HAProxy knows of a host, by HAProxy's names of it.

        Among them: status (UP, DOWN, DRAIN, "no check"), scur (requests
        under way), chkfail, chkdown (how often it was taken out).
        """
        text = self.ask("show stat").removeprefix("# ")
        for row in csv.DictReader(io.StringIO(text)):
            if (row["pxname"], row["svname"]) == ("hosts", host):
                return row
        raise KeyError(host)

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

    @property
    def notices(self) -> list[tuple[float, str]]:
        """What it has said and when (Unix time), requests left out."""
        found = []
        for line in self.output.splitlines():
            moment, _, text = line.partition(" ")
            if not text.startswith("R "):
                when = datetime.fromisoformat(moment).timestamp()
                found.append((when, text))
        return found

    def downs(self, host: str = "h") -> list[float]:
        """When it took a host out (Unix time); by default of any host."""
        return [
            when for when, text in self.notices
            if re.match(rf"Server hosts/{host}\d* is (going )?DOWN", text)
        ]
