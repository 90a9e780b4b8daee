"""Results to draw in tests: simple numbers, never shown as measured."""

from pathlib import Path

from tools.data.results import SUITES, Machine, Point, Results, Run
from tools.servers import SERVERS

LATENCY = ("min", "mean", "p50", "p66", "p75", "p80", "p90", "p95", "p98",
           "p99", "max")  # fmt: skip
LOADS = {  # suite: clients, delay, keep-alive
    "classic": ([10], 0.1, False),
    "many": ([100], 0.1, False),
    "raw-new": ([10], 0.0, False),
    "raw-keep": ([10], 0.0, True),
    "sweep": ([2**n for n in range(13)], 0.1, False),
    "syscalls": ([1, 50], 0.0, True),
}


def run(server: str, clients: int, rate: float, suite: str = "x") -> Run:
    """One good run with a figure for everything."""
    return Run(
        command=f"python3 {server} {suite}\n"
        f"ab -c {clients} http://127.0.0.1:1/",
        requests=1000,
        seconds=1000 / rate,
        requests_per_second=rate,
        latency_ms=dict.fromkeys(LATENCY, 1000 * clients / rate),
        body_bytes=249,
        response_bytes=400.0,
        cpu_user=0.3,
        cpu_system=0.1,
        peak_memory=20_000_000,
        threads=clients + 1,
        context_switches=100,
        system_calls={"recvfrom": 1000, "sendto": 1000},
    )


def results(factor: float = 1.0, suites: tuple[str, ...] = ()) -> Results:
    """A run of all suites (or some) and all servers, three repeats."""
    points = []
    for suite in suites or SUITES:
        loads, delay, keep = LOADS[suite]
        for number, server in enumerate(SERVERS, 1):
            for clients in loads:
                rate = factor * number * clients
                runs = [
                    run(server.file, clients, rate * part, suite)
                    for part in (0.9, 1.0, 1.1)
                ]
                points.append(
                    Point(
                        server.name, suite, clients, delay, 0, keep,
                        runs=runs,
                    )
                )
    return Results(
        command="./bench.sh --full",
        mode="full",
        started="2000-01-02T03:04:05+00:00",
        commit="",
        machine=Machine("A & B <CPU>", 2, 2**33, "Linux", "CPython", 1024),
        tools={"ab": "2.3"},
        complete=True,
        seconds=60.0,
        points=points,
    )


def save(folder: Path, made: Results) -> Path:
    """Write a run with its raw outputs; the folder."""
    made.save(folder)
    (folder / "raw").mkdir(exist_ok=True)
    for server in SERVERS:
        text = ""
        for point in made.points:
            if point.server == server.name and point.runs:
                for line in point.runs[0].command.splitlines():
                    text += f"$ {line}\n"
                text += f"This is ApacheBench & Co\n{point.suite}\n\n"
        (folder / "raw" / f"{server.name}.txt").write_text(text)
    return folder
