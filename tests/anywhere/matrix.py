"""The README's two commands on clean systems, as an ordinary user.

    sudo python3 tests/anywhere/matrix.py [--only debian-13,pypy] [--full]

Each system is a root file system of its own, made by debootstrap from the
mirror that this machine uses: Python, git, and nothing else. In it, a user
clones the last commit into a path with a space and an umlaut, and runs
./test.sh and ./bench.sh in circumstances that users have (`RUNS`). At the
end stands a table; the status is 1 if anything was red. What each run
printed is kept beside the root file systems.

It needs root, Linux, debootstrap and some 5 GB; nothing but the standard
library, so that any Python runs it.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDER = "/home/anna/Meine Kurse ü/seven servers"
SECONDS = 3600  # for one command, which hangs after that
# What lets this machine reach a mirror and an index of packages.
FROM_HERE = (
    "etc/resolv.conf", "etc/hosts", "etc/pip.conf",
    "etc/ssl/certs/ca-certificates.crt",
)
APT = "DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends"
# A mirror that stands still has a Release file that is out of date.
UNCHECKED = "-o Acquire::Check-Valid-Until=false -o Acquire::Check-Date=false"
COUNTS = re.compile(r"\d+ (?:passed|failed|errors?|skipped|xfailed)")


@dataclass(frozen=True)
class System:
    """A root file system: what Debian it is, and which Python it has.

    servers_only: its Python runs the servers, another one the tests.
    """

    name: str
    suite: str
    packages: str
    servers_only: str = ""


@dataclass(frozen=True)
class Run:
    """Circumstances: soft and hard limit of open files, what is missing."""

    name: str
    soft: int = 1024
    hard: int = 4096
    extras: bool = False
    proc: bool = True
    network: bool = False
    cpus: str = ""


SYSTEMS = (
    System("debian-12", "bookworm", "python3 python3-venv"),
    System("debian-13", "trixie", "python3 python3-venv"),
    System("sid-3.14", "sid", "python3.14 python3.14-venv"),
    System("sid-3.15", "sid", "python3.15 python3.15-venv"),
    System("pypy", "sid", "python3.14-venv pypy3", servers_only="pypy3"),
)
EXTRAS = "apache2-utils curl"  # all that the README names
RUNS = (
    Run("login", extras=True, network=True),
    Run("bare", soft=256, hard=256),
    Run("no /proc, one CPU", proc=False,
        cpus=str((os.cpu_count() or 1) - 1)),
    Run("offline"),
)


@dataclass
class Outcome:
    """How a command ended, after so many minutes."""

    system: System
    run: str
    command: str
    status: int
    minutes: float
    counts: str
    log: Path

    def row(self) -> str:
        """A row of the table."""
        said = self.counts or ("done" if not self.status else "red")
        return (
            f"| {self.system.name} | {self.run} | `{self.command}` | "
            f"{'green' if not self.status else 'RED'} | {said} | "
            f"{self.minutes:.1f} |"
        )


def shell(command: str, **named: str) -> None:
    """Run a command of the set-up; ends the program if it fails."""
    done = subprocess.run(
        ["bash", "-ec", command], env={**os.environ, **named},
        capture_output=True, text=True, check=False,
    )
    if done.returncode:
        sys.exit(f"{command}: {(done.stdout + done.stderr)[-2000:]}")


def mirror() -> str:
    """Where this machine has its packages from."""
    for path in (
        *Path("/etc/apt/sources.list.d").glob("*.sources"),
        Path("/etc/apt/sources.list"),
    ):
        text = path.read_text() if path.exists() else ""
        if found := re.search(r"^(?:URIs:|deb) (\S*/debian)/?\s", text, re.M):
            return found[1]
    sys.exit("no mirror of Debian was found: name one with --mirror")


def make(system: System, place: Path, source: str) -> Path:
    """A root file system with a user, a clone and its environment."""
    base, root = place / system.suite, place / system.name
    if not (base / "made").exists():
        shutil.rmtree(base, ignore_errors=True)
        shell(
            'debootstrap --variant=minbase --no-check-gpg "$SUITE" "$BASE" '
            '"$MIRROR"', SUITE=system.suite, BASE=str(base), MIRROR=source,
        )
        (base / "made").touch()
    if not (root / "made").exists():
        shutil.rmtree(root, ignore_errors=True)
        shell('cp -a "$BASE" "$ROOT"', BASE=str(base), ROOT=str(root))
        (root / "made").unlink()
        from_here(root)
        shell(
            'chroot "$ROOT" sh -ec "'
            f"apt-get -qq {UNCHECKED} update; "
            f"{APT} install git {system.packages} >/dev/null; "
            'useradd -m anna"', ROOT=str(root),
        )
        from_here(root)  # again: packages bring certificates of their own
        (root / "made").touch()
    home = root / FOLDER.lstrip("/")
    shutil.rmtree(home, ignore_errors=True)
    home.parent.mkdir(exist_ok=True)
    shell(
        'git clone -q --no-hardlinks "$FROM" "$TO"; '
        'chroot "$ROOT" chown -R anna: /home/anna',
        FROM=str(ROOT), TO=str(home), ROOT=str(root),
    )
    return root


def from_here(root: Path) -> None:
    """Copy what lets this machine reach the outside."""
    for name in FROM_HERE:
        if Path("/", name).exists():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path("/", name), root / name)


def inside(root: Path, run: Run, command: str) -> list[str]:
    """The words that run a command as the user of a root file system."""
    script = f"""
        ulimit -Sn {run.soft}
        ulimit -Hn {run.hard}
        cd '{FOLDER}'
        {command}
        exit $?  # so that bash stays: process 1 has to reap orphans"""
    steps = [
        'mount --bind "$0" "$0"',
        'mount --rbind /dev "$0/dev"',
        'mount -t tmpfs -o mode=1777 tmpfs "$0/dev/shm"',
        'mount -t tmpfs -o mode=1777 tmpfs "$0/tmp"',
    ]
    if run.proc:
        steps.append('mount -t proc proc "$0/proc"')
    if not run.network:
        steps.append("ip link set lo up")
    steps.append('exec chroot "$0" "$@"')
    return [
        "unshare", "--mount", "--pid", "--fork", "--kill-child",
        *([] if run.network else ["--net"]),
        "bash", "-ec", "\n".join(steps), str(root),
        "setpriv", "--reuid=anna", "--regid=anna", "--init-groups",
        "--inh-caps=-all", "--bounding-set=-all",
        "env", "-i", "HOME=/home/anna", "PATH=/usr/bin:/bin", "LANG=C",
        *(["taskset", "-c", run.cpus] if run.cpus else []),
        "bash", "-c", script,
    ]


def tried(
    system: System, run: Run, command: str, root: Path, place: Path
) -> Outcome:
    """Run one command, and say how it ended."""
    name = re.sub(r"\W+", "-", f"{system.name}-{run.name}-{command}")
    log = place / f"{name.strip('-')}.log"
    begun = time.monotonic()
    with log.open("wb") as file:
        try:
            status = subprocess.run(
                inside(root, run, command), stdin=subprocess.DEVNULL,
                stdout=file, stderr=subprocess.STDOUT, timeout=SECONDS,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            status = 124
    minutes = (time.monotonic() - begun) / 60
    text = log.read_text("utf-8", "replace")
    last = [x for x in text.splitlines() if COUNTS.search(x)][-1:]
    counts = ", ".join(COUNTS.findall(last[0])) if last else ""
    outcome = Outcome(
        system, run.name, command, status, minutes, counts, log
    )
    print(outcome.row(), flush=True)
    return outcome


def all_runs(
    system: System, options: argparse.Namespace
) -> list[Outcome]:
    """Everything on one system, one after the other."""
    root = make(system, options.place, options.mirror)
    commands = ["./test.sh", "./bench.sh --smoke"]
    if system.servers_only:
        commands = [f"SEVEN_PYTHON={system.servers_only} ./test.sh"]
    setup = Run("set-up", network=True)
    found = [tried(system, setup, ". tools/venv.sh", root, options.place)]
    if found[0].status:
        return found
    runs = [
        run for run in RUNS
        if not options.runs or run.name.split()[0] in options.runs.split(",")
    ]
    # What the README names is installed when nothing else needs it gone.
    for run in sorted(runs, key=lambda run: run.extras):
        verb = "install" if run.extras else "remove"
        shell(
            f'chroot "$ROOT" sh -ec "{APT} {verb} {EXTRAS} >/dev/null"',
            ROOT=str(root),
        )
        if run.extras and options.full and not system.servers_only:
            commands = ["./test.sh", "./bench.sh"]
        found += [tried(system, run, c, root, options.place)
                  for c in commands]
    return found


def main() -> int:
    """Make the systems, run the commands, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--only", default="", metavar="NAMES",
        help="of " + ", ".join(s.name for s in SYSTEMS))
    add("--runs", default="", metavar="NAMES",
        help="the first words of " + ", ".join(r.name for r in RUNS))
    add("--full", action="store_true",
        help="./bench.sh whole at the login, not only --smoke")
    add("--jobs", type=int, default=1, help="systems at the same time")
    add("--place", type=Path, default=Path("/var/tmp/anywhere"),
        help="where the systems are kept (default: %(default)s)")
    add("--mirror", default="", help="of Debian's packages")
    options = parser.parse_args()
    if os.getuid() or not shutil.which("debootstrap"):
        print("matrix.py needs root and debootstrap.", file=sys.stderr)
        return 2
    options.mirror = options.mirror or mirror()
    options.place.mkdir(parents=True, exist_ok=True)
    systems = [
        s for s in SYSTEMS
        if not options.only or s.name in options.only.split(",")
    ]
    print("| system | circumstances | command | | result | minutes |")
    print("|---|---|---|---|---|---|", flush=True)
    with ThreadPoolExecutor(options.jobs) as pool:
        found = [
            outcome
            for each in pool.map(lambda s: all_runs(s, options), systems)
            for outcome in each
        ]
    skips: dict[str, set[str]] = {}
    for outcome in found:
        text = outcome.log.read_text("utf-8", "replace")
        for why in re.findall(r"^SKIPPED \[\d+\] \S+ (.*)$", text, re.M):
            skips.setdefault(why, set()).add(
                f"{outcome.system.name} ({outcome.run})"
            )
    print("\nSkipped, with the reason:")
    for why, where in sorted(skips.items()):
        print(f"- {why}: {', '.join(sorted(where))}")
    print(f"\nThe logs are in {options.place}.")
    return int(any(outcome.status for outcome in found))


if __name__ == "__main__":
    sys.exit(main())
