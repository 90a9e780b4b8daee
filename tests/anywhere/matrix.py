"""./test.sh and ./bench.sh on clean systems, as an ordinary user.

    sudo python3 tests/anywhere/matrix.py [--only debian-13,pypy]

Each system is a root file system of its own, made by debootstrap from
Debian's mirror: Python, git, and nothing else. In it, a user clones the
last commit into a path with a space and an umlaut, and runs both commands
in circumstances that users have (`RUNS`). It prints a table; the status is
1 if anything was red. What each run printed is beside the root file systems.

It needs root, Linux, debootstrap and some 5 GB; nothing but the standard
library, so that any Python runs it.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
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
COUNTS = re.compile(r"\d+ (?:passed|failed|errors?|skipped|xfailed)")
# System -> its Debian, and the packages of its Python.
SYSTEMS = {
    "debian-12": ("bookworm", "python3 python3-venv"),
    "debian-13": ("trixie", "python3 python3-venv"),
    "sid-3.14": ("sid", "python3.14 python3.14-venv"),
    "sid-3.15": ("sid", "python3.15 python3.15-venv"),
    "pypy": ("sid", "python3.14-venv pypy3"),  # it runs the servers only
}
# Circumstances -> limit of open files, and what is missing.
RUNS = {
    "login": (1024, ""),
    "bare": (256, "network"),
    "no proc": (1024, "network, proc"),
}


def shell(command: str, **named: str) -> None:
    """Run a command of the set-up; ends the program if it fails."""
    done = subprocess.run(
        ["bash", "-ec", command], env={**os.environ, **named},
        capture_output=True, text=True, check=False,
    )
    if done.returncode:
        sys.exit(f"{command}: {(done.stdout + done.stderr)[-2000:]}")


def make(system: str, root: Path, mirror: str) -> None:
    """A root file system with a user and a clone."""
    suite, packages = SYSTEMS[system]
    if not (root / "made").exists():
        shutil.rmtree(root, ignore_errors=True)
        shell(
            'debootstrap --variant=minbase --no-check-gpg "$SUITE" "$ROOT" '
            '"$MIRROR"', SUITE=suite, ROOT=str(root), MIRROR=mirror,
        )
        from_here(root)
        shell(
            f'chroot "$ROOT" sh -ec "{APT} update; {APT} install git '
            f'{packages}; useradd -m anna"', ROOT=str(root),
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


def from_here(root: Path) -> None:
    """Copy what lets this machine reach the outside."""
    for name in FROM_HERE:
        if Path("/", name).exists():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(Path("/", name), root / name)


def inside(root: Path, files: int, missing: str, command: str) -> list[str]:
    """The words that run a command as the user of a root file system."""
    script = f"""
        ulimit -n {files}
        cd '{FOLDER}'
        {command}
        exit $?  # so that bash stays: process 1 has to reap orphans"""
    steps = [
        'mount --bind "$0" "$0"',
        'mount --rbind /dev "$0/dev"',
        'mount -t tmpfs -o mode=1777 tmpfs "$0/dev/shm"',
        'mount -t tmpfs -o mode=1777 tmpfs "$0/tmp"',
    ]
    if "proc" not in missing:
        steps.append('mount -t proc proc "$0/proc"')
    if "network" in missing:
        steps.append("ip link set lo up")
    steps.append('exec chroot "$0" "$@"')
    return [
        "unshare", "--mount", "--pid", "--fork", "--kill-child",
        *(["--net"] if "network" in missing else []),
        "bash", "-ec", "\n".join(steps), str(root),
        "setpriv", "--reuid=anna", "--regid=anna", "--init-groups",
        "--inh-caps=-all", "--bounding-set=-all",
        "env", "-i", "HOME=/home/anna", "PATH=/usr/bin:/bin", "LANG=C",
        "bash", "-c", script,
    ]


def tried(system: str, run: str, command: str, root: Path) -> bool:
    """Run one command and print how it ended; was it green?"""
    name = re.sub(r"\W+", "-", f"{system}-{run}-{command}").strip("-")
    log = root.parent / f"{name}.log"
    with log.open("wb") as file:
        try:
            status = subprocess.run(
                inside(root, *RUNS[run], command), stdin=subprocess.DEVNULL,
                stdout=file, stderr=subprocess.STDOUT, timeout=SECONDS,
                check=False,
            ).returncode
        except subprocess.TimeoutExpired:
            status = 124
    lines = log.read_text("utf-8", "replace").splitlines()
    last = next((x for x in reversed(lines) if COUNTS.search(x)), "")
    said = "RED" if status else "green"
    counts = ", ".join(COUNTS.findall(last))
    print(f"| {system} | {run} | `{command}` | {said} | {counts} |",
          flush=True)
    return status == 0


def main() -> int:
    """Make the systems, run the commands, print the table."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    add = parser.add_argument
    add("--only", default=",".join(SYSTEMS), metavar="NAMES",
        help="default: %(default)s")
    add("--place", type=Path, default=Path("/var/tmp/anywhere"),
        help="where the systems are kept (default: %(default)s)")
    add("--mirror", default="https://deb.debian.org/debian",
        help="of Debian's packages (default: %(default)s)")
    options = parser.parse_args()
    systems = options.only.split(",")
    if unknown := set(systems) - set(SYSTEMS):
        parser.error(f"no system is called {unknown.pop()!r}: there are "
                     + ", ".join(SYSTEMS))
    if os.getuid() or not shutil.which("debootstrap"):
        sys.exit("matrix.py needs root and debootstrap.")
    options.place.mkdir(parents=True, exist_ok=True)
    print("| system | circumstances | command | | result |")
    print("|---|---|---|---|---|", flush=True)
    green = True
    for system in systems:
        root = options.place / system
        make(system, root, options.mirror)
        commands = ["./test.sh", "./bench.sh --smoke"]
        if system == "pypy":
            commands = ["SEVEN_PYTHON=pypy3 ./test.sh"]
        # The first run makes the environment, with a network.
        for run in RUNS:
            for command in commands:
                green &= tried(system, run, command, root)
    print(f"\nThe logs, also of what was skipped, are in {options.place}.")
    return int(not green)


if __name__ == "__main__":
    sys.exit(main())
