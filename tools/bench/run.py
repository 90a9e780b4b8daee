"""Measures the suites of ./bench.sh: servers and peers side by side."""

from contextlib import AbstractContextManager
from functools import partial

from tools.bench import plan
from tools.bench.cost import switches
from tools.bench.peers import start as peers
from tools.bench.server import Running, start
from tools.bench.session import Session, Work
from tools.bench.sweep import judge, too_slow
from tools.data.results import Point, Run
from tools.peers import Peer
from tools.servers import Server


def measure_all(
    session: Session, tasks: list[plan.Task], repeats: int
) -> None:
    """Measure tasks, their repeats interleaved."""
    session.rounds([
        (point_of(task), partial(measure, session, task)) for task in tasks
    ], repeats)


def sweep(
    session: Session, servers: list[Server], repeats: int,
    limit: tuple[int, str],
) -> None:
    """More and more clients, each server as far as it survives.

    limit: the most clients this machine can hold, and why.
    """
    rates: dict[str, list[float]] = {s.name: [] for s in servers}
    alive = list(servers)
    for clients in plan.SWEEP_CLIENTS:
        if clients > limit[0]:
            for server in alive:
                point = session.results.suite("sweep", server.name)[-1]
                point.end, point.reason = True, limit[1]
            session.say(f"[yellow]The sweep ends here: {limit[1]}.")
            break
        points = [
            _step(session, plan.sweep_task(s, clients, rates[s.name]))
            for s in alive
        ]
        session.rounds(points, repeats)
        for server, (point, _) in zip([*alive], points, strict=True):
            judge(point)
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


def _step(session: Session, task: plan.Task) -> Work:
    """A point of the sweep; it is not repeated if it is too slow."""
    point = point_of(task)

    def once() -> Run:
        one = measure(session, task)
        point.end = too_slow(one, point.clients)
        return one

    return point, once


def skip(session: Session, tasks: list[plan.Task], reason: str) -> None:
    """Note why these are not measured."""
    for task in tasks:
        session.skip(point_of(task), reason)


def point_of(task: plan.Task) -> Point:
    """A new point for a task."""
    return Point(
        server=task.server.name, suite=task.suite,
        clients=task.load.clients, delay=task.delay,
        keep_alive=task.load.keep_alive, variant=task.variant,
    )


def measure(session: Session, task: plan.Task) -> Run:
    """One run against a fresh server. Raises ServerError."""
    with launch(task) as process:
        process.warm_up(plan.WARM_UP.get(task.delay, 2))
        before = switches(process)
        one = session.load(
            process, task.load, name=task.server.name, delay=task.delay,
            count=task.suite == "syscalls",
        )
    # Those of ended threads are known when the server has ended.
    if not one.system_calls and process.switches and before is not None:
        one.context_switches = max(process.switches - before, 0)
    return one


def launch(task: plan.Task) -> AbstractContextManager[Running]:
    """The task's server, started and stopped. Raises ServerError."""
    if isinstance(task.server, Peer):
        return peers.start(task.server)
    return start(task.server, task.delay, task.options)
