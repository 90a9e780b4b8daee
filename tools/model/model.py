"""A server as queues: its threads, its cores, and the wait of a request.

Closed forms for the curves, events for single requests. docs/assets/model.js
is the same in JavaScript; a test compares the two.
"""

from __future__ import annotations

import heapq
import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from tools.data.results import Point, Results
from tools.servers import NO, POOL, YES, Server

FULL = 0.9  # of what a queue can do: from here on it is what holds up


@dataclass(frozen=True)
class Shape:
    """How a server waits.

    threads: requests that it has in progress at most, 0: any number;
    cores: how many of its requests compute at the same time (with a GIL,
    one in each process).
    """

    threads: int = 0
    cores: int = 1


def shape(server: Server) -> Shape:
    """What the table of lessons says of a server."""
    overlap = server.lessons["overlap"]
    return Shape(
        {NO: 1, POOL: server.workers}.get(overlap, 0),
        server.workers if server.lessons["cores"] == YES else 1,
    )


def closed(
    how: Shape, wait: float, compute: float, most: int, load: float = 0.0
) -> list[float]:
    """Requests per second with 1, 2, ..., most clients.

    Each client sends its next request when it has a response. wait and
    compute: seconds of a request; load: seconds of CPU that the load
    generator needs for one, on a core of its own. By mean value analysis
    (Reiser and Lavenberg, 1980); several cores are one that is as fast as
    all, and a delay for the rest of the computing (Seidmann, 1987).
    """
    demands = (compute / how.cores, load)
    rest = compute - demands[0]
    queues = [0.0, 0.0]
    found: list[float] = []
    for clients in range(1, min(most, how.threads or most) + 1):
        stays = [d * (1 + q) for d, q in zip(demands, queues, strict=True)]
        rate = clients / (wait + rest + sum(stays))
        queues = [rate * stay for stay in stays]
        found.append(rate)
    return found + found[-1:] * (most - len(found))


def most_rate(how: Shape, wait: float, compute: float) -> float:
    """Requests per second that are possible, however many clients."""
    cores = how.cores / compute if compute else math.inf
    return min(cores, how.threads / (wait + compute or math.inf)
               if how.threads else math.inf)


def fullest(how: Shape, wait: float, compute: float, rate: float) -> str:
    """What holds up the requests: "cores", "threads", or "" (nothing)."""
    if rate * compute > FULL * how.cores:
        return "cores"
    busy = rate * (wait + compute)
    return "threads" if how.threads and busy > FULL * how.threads else ""


def chances(seed: int) -> Callable[[], float]:
    """Numbers above 0, up to 1, that look like chance (mulberry32)."""
    state = seed

    def draw() -> float:
        nonlocal state
        state = (state + 0x6D2B79F5) & 0xFFFFFFFF
        mixed = (state ^ state >> 15) * (1 | state) & 0xFFFFFFFF
        mixed ^= (mixed + (mixed ^ mixed >> 7) * (61 | mixed)) & 0xFFFFFFFF
        return ((mixed ^ mixed >> 14) + 1) / 2**32

    return draw


@dataclass
class Request:
    """Seconds: sent, taken by a thread, responded to (infinity: not yet)."""

    client: int
    sent: float
    taken: float = math.inf
    done: float = math.inf


def simulate(
    how: Shape, wait: float, compute: float, seconds: float,
    clients: int = 0, rate: float = 0.0, seed: int = 0,
) -> list[Request]:
    """The requests of the first seconds, in the order they were sent.

    clients: so many, each sends its next request when it has a response;
    rate: instead, so many requests in a second, whatever becomes of them,
    by chance. seed: computing takes `compute` on average, by chance
    (exponentially); 0: always.
    """
    draw, arrivals = chances(seed), chances(seed + 1)
    requests: list[Request] = []
    waiting: deque[Request] = deque()  # for a thread
    ready: deque[Request] = deque()  # for a core
    events: list[tuple[float, int, int, Request]] = []
    free_threads = how.threads or math.inf
    free_cores = how.cores
    number = 0

    def later(moment: float, step: int, request: Request) -> None:
        nonlocal number
        number += 1
        heapq.heappush(events, (moment, number, step, request))

    def send(client: int, now: float) -> None:
        request = Request(client, now)
        requests.append(request)
        waiting.append(request)

    def go_on(now: float) -> None:
        nonlocal free_threads, free_cores
        while waiting and free_threads:
            free_threads -= 1
            request = waiting.popleft()
            request.taken = now
            ready.append(request)
        while ready and free_cores:
            free_cores -= 1
            took = compute * (-math.log(draw()) if seed else 1)
            later(now + took, 1, ready.popleft())

    for client in range(clients):
        send(client, 0.0)
    if rate:
        later(-math.log(arrivals()) / rate, 0, Request(0, 0.0))
    go_on(0.0)
    while events and events[0][0] <= seconds:
        now, _, step, request = heapq.heappop(events)
        if step == 0:  # the next one arrives
            send(request.client, now)
            gap = -math.log(arrivals()) / rate
            later(now + gap, 0, Request(request.client + 1, 0.0))
        elif step == 1:  # it has computed, now it waits
            free_cores += 1
            later(now + wait, 2, request)
        else:
            request.done = now
            free_threads += 1
            if not rate:
                send(request.client, now)
        go_on(now)
    return requests


# What was measured ---------------------------------------------------------

KNOWN = 64  # clients: the point of a sweep that gives the CPU per request


def rates(results: Results, server: Server) -> dict[int, Point]:
    """The points of a server's sweep that have a rate, by clients."""
    return {
        point.clients: point for point in results.suite("sweep", server.name)
        if point.median("requests_per_second")
    }


def cost(results: Results, server: Server) -> float:
    """Seconds of CPU for a request. Raises KeyError if it is not known."""
    found = rates(results, server)[KNOWN].median("cpu_ms")
    if found is None:
        raise KeyError(server.name)
    return found / 1000


def load_cost(results: Results) -> float:
    """Seconds of CPU that ab needs for a request, at most.

    It has one core, and no server got more requests than this.
    """
    return 1 / max(
        point.median("requests_per_second") or 0.0
        for point in results.suite("sweep")
    )


def misses(results: Results, server: Server) -> dict[int, float]:
    """By clients: how far the model is above what was measured (0.1: 10 %).

    ab sends one request alone, and the others when it has that response.
    """
    found = {}
    compute, load = cost(results, server), load_cost(results)
    for clients, point in rates(results, server).items():
        rate = closed(shape(server), point.delay, compute, clients, load)[-1]
        number = point.median("requests") or 1
        seconds = point.delay + compute + (number - 1) / rate
        real = point.median("requests_per_second") or 0.0
        found[clients] = number / seconds / real - 1
    return found
