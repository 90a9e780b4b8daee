"""Runs a program that prints figures, and ends it whatever happens."""

import contextlib
import json
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tools.bench.server import ServerError
from tools.common.launch import scrub
from tools.servers import ROOT

END_SECONDS = 30  # for a lab to end that has been told to


class LabError(ServerError):
    """A lab that gave no figures; the text says why."""


def said_by(
    words: Sequence[str], seconds: float, *,
    environment: Mapping[str, str] | None = None,
    stdin: int = subprocess.DEVNULL, end: Callable[[], object] | None = None,
) -> str:
    """What a command prints, run from the root of the repository.

    However this ends, the lab and all it has started end too. end: how to
    tell it, if not by SIGTERM. Raises LabError with what it said last,
    unless it printed JSON.
    """
    try:
        child = subprocess.Popen(
            words, cwd=ROOT, env={**os.environ, **(environment or {})},
            stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            text=True, errors="replace", start_new_session=True,
        )
    except OSError as error:
        raise LabError(f"{words[0]}: {error.strerror}") from error
    try:
        out, err = child.communicate(timeout=seconds)
    except subprocess.TimeoutExpired as error:
        raise LabError(f"it took more than {seconds:.0f} s") from error
    finally:
        if child.poll() is None:
            (end or child.terminate)()  # it ends its own processes first
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(END_SECONDS)
        with contextlib.suppress(OSError):  # there may be none left
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
    if child.returncode and not out.startswith("{"):
        lines = err.strip().splitlines() or [
            f"the lab ended with status {child.returncode}"
        ]
        raise LabError(scrub(lines[-1].removeprefix("lab.py: ")))
    return out


def figures_of(
    words: Sequence[str], seconds: float, **how: Any
) -> tuple[str, dict[str, Any]]:
    """What a command prints, and the JSON in it. Raises LabError."""
    text = said_by(words, seconds, **how)
    try:
        return text, dict(json.loads(text))
    except (ValueError, TypeError) as error:
        raise LabError("the lab did not print its figures") from error
