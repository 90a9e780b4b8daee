"""Measures the suites of ./bench.sh: servers and peers side by side."""

from collections.abc import Callable, Sequence
from functools import partial

from tools.bench import plan
from tools.bench.session import Session, Work
from tools.data.results import Point, Run
from tools.peers import Peer
from tools.servers import Server


def work(session: Session, task: plan.Task) -> Work:
    """The point of a task, and what measures it once."""
    server = task.server
    return task.point(), partial(
        session.measure, server, task.load, *task.options, name=server.name,
        delay=task.delay, warm_up=plan.WARM_UP.get(task.delay, 2),
        count=task.suite == "syscalls",
    )


def measure_all(
    session: Session, tasks: list[plan.Task], repeats: int
) -> None:
    """Measure tasks, their repeats interleaved."""
    session.rounds([work(session, task) for task in tasks], repeats)


def skip(session: Session, tasks: list[plan.Task], reason: str) -> None:
    """Note why these are not measured."""
    for task in tasks:
        session.skip(task.point(), reason)


# The sweep ----------------------------------------------------------------


def sweep(
    session: Session, servers: Sequence[Server | Peer], repeats: int,
    limit: tuple[int, str], levels: Sequence[int] = plan.SWEEP_CLIENTS,
    step: Callable[[Server | Peer, int, list[float]], Work] | None = None,
) -> None:
    """More and more clients, each server as far as it survives.

    limit: the most clients this machine can hold, and why; levels: how
    many clients; step: a server's next point, and what measures it once,
    by the rates of the points before it.
    """
    rates: dict[str, list[float]] = {s.name: [] for s in servers}
    last: dict[str, Point] = {}
    step = step or partial(_usual_step, session)
    alive = list(servers)
    for clients in levels:
        if clients > limit[0]:
            for point in (last[server.name] for server in alive):
                point.end, point.reason = True, limit[1]
            session.say(f"[yellow]The sweep ends here: {limit[1]}.")
            break
        points = [
            _patiently(*step(s, clients, rates[s.name])) for s in alive
        ]
        session.rounds(points, repeats)
        for server, (point, _) in zip([*alive], points, strict=True):
            judge(point)
            last[server.name] = point
            rates[server.name].append(
                point.median("requests_per_second") or 0.0
            )
            if point.end:
                alive.remove(server)
                session.say(
                    f"[yellow]{point.server} ends at {clients} clients: "
                    f"{point.reason}"
                )
    session.save()


def _usual_step(
    session: Session, server: Server | Peer, clients: int,
    rates: list[float],
) -> Work:
    """The next point of the suite sweep."""
    return work(session, plan.sweep_task(server, clients, rates))


def _patiently(point: Point, measure: Callable[[], Run]) -> Work:
    """A point of a sweep; it is not repeated if it is too slow."""

    def once() -> Run:
        one = measure()
        worst = one.latency_ms.get("max", 0.0)
        too_few = 0 < one.requests < point.clients
        point.end = worst > plan.PATIENCE_MS or too_few
        return one

    return point, once


def trouble(run: Run, clients: int) -> str:
    """Why a run ends a server's line in the sweep; "" if it does not."""
    worst = run.latency_ms.get("max", 0.0)
    if run.error is not None:
        return run.error
    # Before failures: ab counts what its -t cuts short as one.
    if worst > plan.PATIENCE_MS:
        return f"a client waited {worst / 1000:.1f} s for its response"
    if run.failed:
        return f"{run.failed} of {run.requests + run.failed} requests failed"
    if run.requests < clients:
        return (
            f"{clients - run.requests} of {clients} clients had no response "
            f"after {run.seconds:.0f} s"
        )
    return ""


def judge(point: Point) -> None:
    """Decide whether a sweep ends at this point, and note why."""
    found = [trouble(run, point.clients) for run in point.runs]
    reasons = [text for text in found if text]
    point.end = point.end or 2 * len(reasons) > len(point.runs)
    point.reason = reasons[-1] if point.end and reasons else ""
