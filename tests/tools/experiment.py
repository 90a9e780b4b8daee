"""How the tests run an experiment, and look at what it kept."""

import argparse
import shutil
import socket
import threading
from pathlib import Path
from types import ModuleType
from typing import Any

from tools.bench import __main__ as command
from tools.bench.session import Session
from tools.data.results import Results, load

LOAD = "ab" if shutil.which("ab") else "python"


def options(module: ModuleType, *words: str) -> argparse.Namespace:
    """Its options; nonsense raises argparse.ArgumentError."""
    parser = argparse.ArgumentParser(exit_on_error=False)
    command.experiment_options(parser, name_of(module), module)
    return parser.parse_args(words)


def name_of(module: ModuleType) -> str:
    """What it is called on the command line."""
    return module.__name__.rpartition(".")[2]


def status_of(module: ModuleType, chosen: argparse.Namespace) -> int:
    """Run it in this process; its status."""
    return command.run(name_of(module), module, chosen)


def run(module: ModuleType, folder: Path, *words: str) -> tuple[int, Results]:
    """Run it in this process; its status, and what it kept."""
    chosen = options(module, *words, "--output", str(folder))
    return status_of(module, chosen), load(folder)


def session(folder: Path, **more: Any) -> Session:
    """A session that nobody has begun."""
    chosen = {"output": folder, "repeats": None, "reference": False, **more}
    return Session("demo", argparse.Namespace(**chosen))


def answering(*answers: bytes) -> int:
    """The port of a server that gives each connection one of these."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        with listener:
            for answer in answers:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(4096)
                    connection.sendall(answer)

    threading.Thread(target=serve, daemon=True).start()
    return int(listener.getsockname()[1])
