"""What a committed run keeps: the numbers that a page or a test reads.

A reader's own run keeps all that was measured. Of a committed one that
would be ten times what the pages show, in every clone and every review;
all of it is still in its raw outputs. Whoever shows a new figure adds its
name here, and measures again.
"""

from dataclasses import fields, replace

from tools.data.results import Results, Run

# Mode of a run -> its figures, by the names that pages use.
FIGURES = {
    "full": {
        "requests_per_second", "min", "mean", "p50", "p99", "max", "cpu_ms",
        "cores", "peak_memory", "threads", "context_switches",
        "calls_per_request", "body_bytes",
    },
    "peers": {"requests_per_second", "cpu_ms"},
    "crowd": {
        "requests_per_second", "p99", "cores", "load_cores",
        "load_limit_per_second",
    },
    "gains": {"requests_per_second", "cpu_ms"},
    "hold": {
        "connections", "answered", "wrong", "open_seconds",
        "first_answer_seconds", "needed_seconds", "watched_seconds",
        "descriptors", "user_bytes_per_connection", "threads",
    },
    "labs-chain": {
        "requests_per_second", "cpu_ms", "chain_per_second",
        "chain_cpu_ms", "chain_end",
    },
    "labs-database": {
        "requests_per_second", "p50", "p99", "threads", "connections",
        "refused", "gave_up", "gap_seconds",
    },
    "labs-frames": {
        "mb_per_second", "copied_frames", "allocated_frames",
        "faults_per_frame", "user_ms", "system_ms",
    },
    "pythons": {"cpu_ms"},
    "scale": {"requests_per_second", "cores", "speed_up_times"},
    "static": {
        "requests_per_second", "p50", "p90", "p99", "max", "cpu_ms",
    },
    "threads": {"requests_per_second", "cpu_ms", "cores", "peak_memory"},
}  # fmt: skip
MADE_FROM = {
    "cpu_ms": {"cpu_user", "cpu_system"},
    "cores": {"cpu_user", "cpu_system"},
    "calls_per_request": {"system_calls"},
}


def only_read(results: Results) -> Results:
    """The same run without what nobody reads; all if it is of no list."""
    names = FIGURES.get(results.mode)
    if names is None:
        return results
    names = names.union(*(MADE_FROM.get(name, ()) for name in names))
    points = [
        replace(point, runs=[_only(run, names) for run in point.runs])
        for point in results.points
    ]
    return replace(results, points=points)


def _only(run: Run, names: set[str]) -> Run:
    fewer = replace(
        run,
        latency_ms={k: v for k, v in run.latency_ms.items() if k in names},
        extra={k: v for k, v in run.extra.items() if k in names},
        system_calls=run.system_calls if "system_calls" in names else {},
    )
    for each in fields(run):  # None: it was not measured
        if each.default is None and each.name not in {*names, "error"}:
            setattr(fewer, each.name, None)
    return fewer
