"""How the tests run an experiment, and look at what it kept."""

import argparse
import contextlib
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import psutil

from tools.bench import __main__ as command
from tools.bench.session import Session
from tools.common.launch import eventually
from tools.data.results import Results, load
from tools.servers import ROOT


def options(module: ModuleType | str, *words: str) -> argparse.Namespace:
    """Its options; nonsense raises argparse.ArgumentError."""
    name = name_of(module)
    parser = argparse.ArgumentParser(exit_on_error=False)
    command.experiment_options(parser, name, command.find(name))
    return parser.parse_args(words)


def name_of(module: ModuleType | str) -> str:
    """What it is called on the command line."""
    if isinstance(module, str):
        return module
    parts = module.__name__.split(".")
    return parts[1] if parts[0] == "labs" else parts[-1]


def status_of(module: ModuleType | str, folder: Path, *words: str) -> int:
    """Run it in this process; its status."""
    name = name_of(module)
    chosen = options(module, *words, "--output", str(folder))
    return command.run(name, command.find(name), chosen)


def run(
    module: ModuleType | str, folder: Path, *words: str
) -> tuple[int, Results]:
    """Run it in this process; its status, and what it kept."""
    return status_of(module, folder, *words), load(folder)


def session(folder: Path, **more: Any) -> Session:
    """A session that nobody has begun."""
    chosen = {"output": folder, "repeats": None, "reference": False, **more}
    return Session("demo", argparse.Namespace(**chosen))


def printed(*words: object) -> subprocess.CompletedProcess[str]:
    """What a Python program prints, run as from our own folder."""
    return subprocess.run(
        [sys.executable, *map(str, words)], cwd=ROOT, capture_output=True,
        text=True, check=False,
    )


@contextlib.contextmanager
def under_way(
    words: Sequence[str], ready: Callable[[list[psutil.Process]], object],
    seconds: float = 120.0, **environment: str,
) -> Iterator[tuple[subprocess.Popen[str], list[psutil.Process]]]:
    """``./bench.sh WORDS`` when it is ready, and all that it has started."""
    child = subprocess.Popen(
        [sys.executable, "-m", "tools.bench", *words], cwd=ROOT, text=True,
        env={**os.environ, **environment}, stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT, start_new_session=True,
    )
    family: list[psutil.Process] = []

    def look() -> bool:
        with contextlib.suppress(psutil.Error):
            family[:] = psutil.Process(child.pid).children(recursive=True)
            return bool(ready(family))
        return False

    try:
        assert eventually(look, seconds, 0.05), child.poll()
        yield child, family
    finally:
        child.kill()
        child.wait()


def answering(*responses: bytes) -> int:
    """The port of a server that gives each connection one of these."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener:
            for response in responses:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(response)

    threading.Thread(target=serve, daemon=True).start()
    return int(listener.getsockname()[1])
