"""A line of the sweep: when it ends, and why."""

from tools.bench import plan
from tools.data.results import Point, Run


def too_slow(run: Run, clients: int) -> bool:
    """True if a client waited longer than anybody would."""
    worst = run.latency_ms.get("max", 0.0)
    return worst > plan.PATIENCE_MS or 0 < run.requests < clients


def trouble(run: Run, clients: int) -> str:
    """Why a run ends a server's line in the sweep; "" if it does not."""
    worst = run.latency_ms.get("max", 0.0)
    if run.error is not None:
        return run.error
    # Before failures: ab counts what its -t cuts short as one.
    if worst > plan.PATIENCE_MS:
        return f"a client waited {worst / 1000:.1f} s for its answer"
    if run.failed:
        return f"{run.failed} of {run.requests + run.failed} requests failed"
    if run.requests < clients:
        return (
            f"{clients - run.requests} of {clients} clients had no answer "
            f"after {run.seconds:.0f} s"
        )
    return ""


def judge(point: Point) -> None:
    """Decide whether a sweep ends at this point, and note why."""
    found = [trouble(run, point.clients) for run in point.runs]
    reasons = [text for text in found if text]
    point.end = point.end or 2 * len(reasons) > len(point.runs)
    point.reason = reasons[-1] if point.end and reasons else ""


def survived(point: Point) -> bool:
    """True unless the server itself ended its line here."""
    runs = point.runs if point.end else []
    return not any(trouble(run, point.clients) for run in runs)
