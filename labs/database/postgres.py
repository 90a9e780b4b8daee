"""A PostgreSQL of our own: in a folder that is made for it, then gone.

It listens on a socket in that folder and nowhere else. It refuses to run
as root; there it runs as the user that its package has made, or nobody.
"""

import contextlib
import os
import pwd
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from tools.bench.preflight import output_of
from tools.bench.session import Refused

GET = (
    "PostgreSQL is not installed: apt install postgresql, or brew install "
    "postgresql"
)
PLACES = (  # where packages put its programs, if not on the PATH
    "usr/lib/postgresql/*/bin", "usr/pgsql-*/bin",
    "opt/homebrew/opt/postgresql*/bin", "usr/local/opt/postgresql*/bin",
)
ROLE = "lab"  # whom the servers log in as
START_SECONDS = 60
GUARD = 'cat; "$0" -D data -m immediate stop; cd /; rm -rf "$1"'


def programs() -> Path:
    """The folder of its programs. Raises Refused if there is none."""
    if found := shutil.which("initdb"):
        return Path(found).resolve().parent
    places = [
        place for pattern in PLACES for place in Path("/").glob(pattern)
        if (place / "initdb").exists()
    ]
    if not places:
        raise Refused(GET)
    return max(places, key=lambda place: _numbers(str(place)))


def version() -> str:
    """As in "15.4". Raises Refused."""
    said = output_of(str(programs() / "postgres"), "--version")
    return ".".join(map(str, _numbers(said)[:2]))


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]


class Postgres:
    """One that runs; `where` is what drivers want to know of it."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.data = folder, folder / "data"
        self.programs = programs()
        self.where = f"host={folder} dbname=postgres user={ROLE}"
        self.how: dict[str, Any] = {  # to start any of its programs
            "cwd": folder, "start_new_session": True,
        }
        if os.geteuid() == 0:
            names = {user.pw_name: user for user in pwd.getpwall()}
            owner = names.get("postgres") or names["nobody"]
            self.how["user"], self.how["group"] = owner[2:4]
            self.how["extra_groups"] = []
            os.chown(folder, *owner[2:4])

    def run(self, program: str, *words: str, given: str = "") -> str:
        """What one of its programs prints. Raises OSError if it fails."""
        done: subprocess.CompletedProcess[str] = subprocess.run(
            [str(self.programs / program), *words], input=given,
            capture_output=True, text=True, check=False,
            timeout=START_SECONDS, **self.how,
        )
        if done.returncode:
            lines = (done.stderr or done.stdout).strip().splitlines()
            bad = [line for line in lines if re.search("ERROR|FATAL", line)]
            why = (bad or lines[-1:] or [f"status {done.returncode}"])[0]
            raise OSError(None, f"PostgreSQL's {program}: {why}")
        return done.stdout

    def sql(self, text: str) -> str:
        """Run statements as its administrator. Raises OSError."""
        return self.run(
            "psql", *self.login("postgres"), "-qAt", "-v", "ON_ERROR_STOP=1",
            given=text,
        )

    def login(self, role: str) -> tuple[str, ...]:
        """Options of psql to log in."""
        return "-X", "-h", str(self.folder), "-U", role, "-d", "postgres"

    def connections(self) -> int:
        """How many the servers have open: each is a process.

        Who is about to log in, perhaps to be refused, does not count.
        """
        pid = int((self.data / "postmaster.pid").read_text().split()[0])
        found = 0
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(pid).children():
                with contextlib.suppress(psutil.Error):
                    title = " ".join(child.cmdline()).strip()
                    found += title.startswith(
                        f"postgres: {ROLE} "
                    ) and not title.endswith(("authentication", "startup"))
        return found


@contextlib.contextmanager
def postgres(limit: int) -> Iterator[Postgres]:
    """A fresh one as long as the block lasts, then nothing is left.

    limit: its max_connections. Raises Refused if it is not installed,
    OSError if it does not start.
    """
    with tempfile.TemporaryDirectory(prefix="lab-") as name:
        one = Postgres(Path(name))
        # Reads until nobody holds the other end: then we are done, or dead.
        guard: subprocess.Popen[bytes] = subprocess.Popen(
            ["sh", "-c", GUARD, str(one.programs / "pg_ctl"), name],
            stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL, **one.how,
        )
        try:
            one.run(
                "initdb", "-D", "data", "-U", "postgres", "--auth=trust",
                "--no-locale", "--encoding=UTF8", "--no-sync",
            )
            one.run(
                "pg_ctl", "-D", "data", "-l", "log", "-w", "start", "-o",
                f"-k {name} -c listen_addresses= -c fsync=off "
                f"-c max_connections={limit}",
            )
            one.sql(f"create role {ROLE} login")
            yield one
        finally:
            guard.communicate()
