"""The command line of step 07: which engine, how many workers."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentTypeError, Namespace
from importlib.util import find_spec

import emulated
import uring
import workers
from web import Parser, between


def settle(options: Namespace) -> None:
    """Choose the engine; a file is sent without any work."""
    options.engine = choose_engine(options.engine)
    if options.directory:
        options.delay = options.compute = 0


def choose_engine(name: str) -> type[emulated.Engine | uring.Engine]:
    """The engine of this name, or the best that works here."""
    if name == "emulated":
        return emulated.Engine
    try:
        uring.open_ring()
    except uring.Unavailable as reason:
        if name == "uring":
            sys.exit(f"{reason}: try --engine emulated")
        print(f"{reason}: the emulated engine serves", file=sys.stderr)
        return emulated.Engine
    except OSError as error:  # it could be fixed, so do not hide it
        sys.exit(f"io_uring cannot start: {error.strerror}")
    return uring.Engine


def directory(path: str) -> str:
    """A check for argparse: there is such a directory."""
    if not os.path.isdir(path):
        raise ArgumentTypeError(f"{path!r} is not a directory")
    return path


def kind(word: str) -> str:
    """A check for argparse: this Python has such workers."""
    if word != "interpreter" or find_spec("concurrent.interpreters"):
        return word
    raise ArgumentTypeError("interpreters need Python 3.14")


def add_options(parser: Parser) -> None:
    """What only this step needs."""
    parser.add_argument(
        "--workers", type=between(1, 512),
        default=workers.usable_cores(),
        help="processes or threads; one for each core (%(default)s)",
    )  # fmt: skip
    parser.add_argument(
        "--worker-kind", type=kind, default="auto",
        choices=("auto", "process", "thread", "interpreter"),
        help="auto: threads where there is no GIL; interpreters of one "
        "process need Python 3.14",
    )  # fmt: skip
    parser.add_argument(
        "--engine", choices=("auto", "uring", "emulated"),
        default="auto", help="auto: io_uring where it can be had",
    )  # fmt: skip
    parser.add_argument(
        "--directory", type=directory, metavar="DIR",
        help="serve these files, without --delay and --compute",
    )  # fmt: skip
