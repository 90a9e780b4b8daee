"""Runs a load generator, ends it whatever happens, reads what it printed."""

import contextlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable

from tools.bench import ab, wrk
from tools.bench.cost import SAMPLE_SECONDS
from tools.data.results import Run
from tools.servers import ROOT

Load = ab.Load | wrk.Load

GRACE_SECONDS = 5.0  # for a load generator to end after its time
SLACK_SECONDS = 60.0  # for a load that is a number of requests, and then
LEAST_RATE = 200  # requests a second; slower than that has stopped
END_SECONDS = 3.0  # for ab to print its figures after an interrupt

# Name in commands -> how to run it, and how that is shown.
PROGRAMS = {
    "ab": ("ab",),
    "python": (sys.executable, "-m", "tools.bench.client"),
    "wrk": ("wrk",),
}
SHOWN = {**PROGRAMS, "python": ("python3", "-m", "tools.bench.client")}


def patience(load: Load, delay: float) -> float:
    """Seconds after which a load is interrupted.

    delay: what a request waits, one after the other at worst.
    """
    if load.seconds is not None:
        return load.seconds + GRACE_SECONDS
    assert isinstance(load, ab.Load)
    return SLACK_SECONDS + load.requests * (delay + 1 / LEAST_RATE)


def run_load(
    words: list[str], seconds: float, tick: Callable[[], None]
) -> tuple[str, bool]:
    """Run a load generator; its output, and whether it was interrupted.

    After ``seconds`` it gets an interrupt, on which ab prints what it
    has. ``tick`` is called every SAMPLE_SECONDS meanwhile.
    """
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryFile("w+b") as output:
        process = subprocess.Popen(
            words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )
        late = False
        try:
            while process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(SAMPLE_SECONDS)
                tick()
                if not late and time.monotonic() > deadline:
                    late = True
                    process.send_signal(signal.SIGINT)
                if late and time.monotonic() > deadline + END_SECONDS:
                    break
        finally:
            process.kill()  # nothing, if it has ended
            process.wait()
        output.seek(0)
        return output.read().decode("utf-8", "replace"), late


def read(program: str, text: str, late: bool) -> Run:
    """The figures in an output; the error says why they are no good.

    late: the load generator was interrupted.
    """
    parse = wrk.parse if program == "wrk" else ab.parse
    one, ended = parse(text)
    if one.error is None:
        one.error = fault(one, late or not ended)
    return one


def fault(one: Run, interrupted: bool) -> str | None:
    """Why these are no good figures, None if they are."""
    if not one.requests:
        return f"no request was answered ({one.failed} failed)"
    if one.non_2xx:
        return f"{one.non_2xx} responses were errors (not 2xx)"
    if one.failed > one.requests:
        return (f"more requests failed ({one.failed}) than were answered "
                f"({one.requests})")
    if interrupted:
        return (f"interrupted after {one.seconds:.0f} s: the server had "
                "stopped answering")
    return None
