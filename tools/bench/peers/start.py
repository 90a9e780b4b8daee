"""Gets the peers ready, starts and stops them.

Those in Python live in ``.venv-peers``, made when they are first wanted,
with the versions pinned in requirements.txt. What cannot be had is no
error: `missing` says why, and the others are measured.
"""

import contextlib
import fcntl
import os
import re
import shutil
import string
import subprocess
import sys
import tempfile
import venv
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

from tools.bench.peers.page import PAGE, TYPE
from tools.bench.preflight import output_of
from tools.bench.server import HOST, Running, free_port
from tools.common.launch import scrub
from tools.peers import Peer
from tools.servers import ROOT, SERVERS

HERE = Path(__file__).parent
VENV = ROOT / ".venv-peers"
PYTHON = VENV / "bin" / "python"
REQUIREMENTS = HERE / "requirements.txt"
INSTALL_SECONDS = 300  # for one peer
IMPORT_SECONDS = 30


# Getting them ------------------------------------------------------------


def missing(
    peers: list[Peer], say: Callable[[str], None] = print
) -> dict[str, str]:
    """Make the peers ready. Name -> why it is not there, how to get it.

    Installs packages into `VENV`, which takes a minute the first time;
    say is called with what is being done.
    """
    with REQUIREMENTS.open() as turn:  # one at a time
        fcntl.flock(turn, fcntl.LOCK_EX)
        whys = {peer.name: _why_missing(peer, say) for peer in peers}
    return {name: why for name, why in whys.items() if why}


def _why_missing(peer: Peer, say: Callable[[str], None]) -> str:
    """Why a peer is not there after all has been tried; "" if it is."""
    if not peer.is_python:
        there = shutil.which(peer.start[0])
        return "" if there else f"{peer.start[0]} is not installed: {peer.get}"
    try:
        _make_venv(say)
        if _importable(peer):
            return ""
        say(f"Installing {peer.name} in {VENV.name} ...")
        said = _install(peer)
    except subprocess.TimeoutExpired:
        said = f"pip took more than {INSTALL_SECONDS} s"
    except (OSError, subprocess.SubprocessError):
        return (
            f"the environment {VENV.name} cannot be made: on Debian and "
            "Ubuntu, apt install python3-venv"
        )
    if _importable(peer):
        return ""
    return f"{peer.name} cannot be installed: {said}"


def _make_venv(say: Callable[[str], None]) -> None:
    """A fresh environment if there is none of this Python and pins."""
    pins = REQUIREMENTS.read_bytes()
    wanted = f"{sys.version} {zlib.crc32(pins)}"
    stamp = VENV / "made-from"
    if stamp.is_file() and stamp.read_text() == wanted:
        return
    say(f"Setting up {VENV.name} for the peers in Python (once) ...")
    venv.create(VENV, clear=True, with_pip=True)
    stamp.write_text(wanted)


def _install(peer: Peer) -> str:
    """Install a peer's packages; what pip said last."""
    done = subprocess.run(
        [PYTHON, "-m", "pip", "install", "--quiet",
         "--disable-pip-version-check", "--retries", "1",
         "--constraint", REQUIREMENTS, *peer.packages],
        capture_output=True, text=True, errors="replace",
        timeout=INSTALL_SECONDS, stdin=subprocess.DEVNULL, check=False,
    )
    lines = done.stderr.strip().splitlines() or ["no reason"]
    return scrub(lines[-1].removeprefix("ERROR: "))


def _importable(peer: Peer) -> bool:
    code = f"import {peer.module}; print('here')"
    said = output_of(str(PYTHON), "-c", code, seconds=IMPORT_SECONDS)
    return said.endswith("here\n")


def versions(peers: list[Peer]) -> dict[str, str]:
    """Name -> version, of those that have one of their own."""
    pins = dict(re.findall(r"^(\S+)==(\S+)", REQUIREMENTS.read_text(), re.M))
    found = {}
    for peer in peers:
        if peer.packages:
            found[peer.name] = pins[peer.packages[0]]
        elif not peer.is_python:  # nginx says it on stderr
            said = output_of("sh", "-c", f"{peer.start[0]} -v 2>&1")
            number = re.search(r"\d+(\.\d+)+", said)
            found[peer.name] = number[0] if number else "?"
    return found


# Running them ------------------------------------------------------------


@contextlib.contextmanager
def start(
    peer: Peer, page: bytes = PAGE, site: Path | None = None
) -> Iterator[Running]:
    """A fresh peer on a free port, stopped at the end.

    page: it has to send this one, b"": with any; site: a folder of
    files that it serves. Raises ServerError if it does not, or does not
    start.
    """
    with tempfile.TemporaryDirectory() as folder:
        tells = any(peer.name == server.name for server in SERVERS)
        port = 0 if tells else free_port()
        if peer.name == "nginx":
            write_nginx_conf(Path(folder), port, site)
        known = {
            "host": HOST, "port": port, "python": PYTHON, "folder": folder,
            "ours": sys.executable, "site": site,
        }
        words = [word.format_map(known) for word in peer.start]
        with Running(words, ROOT, port) as process:
            shown = {
                "host": HOST, "port": process.port, "folder": "FOLDER",
                "python": PYTHON.relative_to(ROOT), "ours": "python3",
                "site": "DIR",
            }
            process.command = " ".join(peer.start).format_map(shown)
            if page:
                fields = {"Content_Type": TYPE} if page == PAGE else {}
                process.check_page(page, **fields)
            yield process


def write_nginx_conf(
    folder: Path, port: int, site: Path | None = None
) -> None:
    """The configuration of nginx with the page, in its own folder."""
    page = f"return 200 '{PAGE.decode()}'"
    text = string.Template((HERE / "nginx.conf").read_text()).substitute(
        host=HOST, port=port, response=f"root {site}" if site else page,
        # As root its worker would be somebody who may not read the folder.
        user="user root;" if os.geteuid() == 0 else "",
    )
    (folder / "nginx.conf").write_text(text)
