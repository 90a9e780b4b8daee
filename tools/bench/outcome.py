"""What came of a run: its figures, its point, its raw output, its place."""

import datetime
import re
import shlex
import shutil
from collections.abc import Sequence
from pathlib import Path

from tools.bench.cost import Cost
from tools.bench.report import Report
from tools.common.launch import scrub
from tools.data import raw
from tools.data.results import OWN, Point, Results, Run


def take_report(run: Run, report: Report, timed: bool = True) -> None:
    """A load generator's figures into a run, but not what was wrong.

    timed: False leaves out all that depends on how fast it was.
    """
    names = ["requests", "failed", "non_2xx", "body_bytes", "response_bytes"]
    if timed:
        names += ["seconds", "latency_ms"]
        run.requests_per_second = report.per_second
    for name in names:
        setattr(run, name, getattr(report, name))


def any_fault(report: Report, late: bool) -> str | None:
    """Why a report is no good figure, None if it is one.

    late: the generator had to be interrupted.
    """
    if not report.requests:
        return f"no request was answered ({report.failed} failed)"
    if report.non_2xx:
        return f"{report.non_2xx} answers were errors (not 2xx)"
    if report.failed > report.requests:
        return (f"more requests failed ({report.failed}) than were answered "
                f"({report.requests})")
    if late or not report.finished:
        return (f"interrupted after {report.seconds:.0f} s: the server had "
                "stopped answering")
    return None


def take_cost(run: Run, cost: Cost) -> None:
    """What a load cost the server, into a run."""
    if not cost.peak_memory:
        return  # the system shows no processes
    run.cpu_user = round(cost.cpu_user, 6)
    run.cpu_system = round(cost.cpu_system, 6)
    run.peak_memory = cost.peak_memory
    run.threads = cost.threads or None


def add(results: Results, point: Point, run: Run) -> None:
    """Add a run to a point, which failed if all of its runs have."""
    if not point.runs:  # an interrupt leaves no point without a run
        results.points.append(point)
    point.runs.append(run)
    errors = [one.error for one in point.runs if one.error is not None]
    failed = len(errors) == len(point.runs)
    point.status = "failed" if failed else "ok"
    point.reason = errors[-1] if failed else ""


def keep_raw(folder: Path, name: str, command: str, text: str) -> None:
    """Append an output, under its commands, to those of NAME.

    name: in words; in the name of a file they stand with hyphens.
    """
    name = re.sub(r"[^\w.]+", "-", name).strip("-")
    lines = "".join(f"$ {line}\n" for line in command.splitlines())
    raw.append(folder, name, f"{lines}{scrub(text).rstrip()}\n\n")


def make_reference(folder: Path, place: Path) -> Path:
    """Put a complete run in the place of the committed one."""
    fresh = place.with_name(f"{place.name}.new")
    shutil.rmtree(fresh, ignore_errors=True)
    shutil.copytree(folder, fresh)
    shutil.rmtree(place, ignore_errors=True)
    fresh.rename(place)
    shutil.rmtree(folder)
    return place


def own_folder() -> Path:
    """A new folder of the reader's own results, named by the time."""
    name = datetime.datetime.now().strftime("%Y%m%d-%H%M%S")
    folder, number = OWN / name, 2
    while folder.exists():
        folder, number = OWN / f"{name}-{number}", number + 1
    return folder


def as_typed(words: Sequence[str]) -> str:
    """A command without what only this machine knows: folders."""
    shown = ["./bench.sh"]
    skip = False
    for word in words:
        if not skip and not word.startswith(("--output", "--no-site")):
            shown.append(re.sub(r"(?<![^\s,=])/(?:[^\s,=/]+/)*", "", word))
        skip = word == "--output"
    return shlex.join(shown)
