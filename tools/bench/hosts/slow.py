"""One slow host: three times the delay, and who gives it how much."""

from tools.bench.hosts.balancer import NO_CHECK, Balancing
from tools.bench.hosts.rig import Case, Measured, Rig

HELP = "one of three hosts is slow: roundrobin, random(2), leastconn"
ALGORITHMS = ("roundrobin", "random(2)", "leastconn")
THREADS = 10  # of each host: 100, 100 and 33 requests per second
CALM, BUSY = 75, 150  # requests/s: a third is less, or more, than 33


def cases(smoke: bool) -> list[Case]:
    """Each algorithm below and above what the slow host can do.

    And above with a limit: no more requests at once than it has threads.
    """
    limit = f"maxconn {THREADS}"
    if smoke:
        plans = [(BUSY, "", 2.0)]
    else:
        plans = [(CALM, "", 4.0), (BUSY, "", 9.0), (BUSY, limit, 9.0)]
    return [
        Case(
            server="03-pool", options=("--workers", str(THREADS)),
            variant=f"{algorithm}, {rate}/s{', a limit' * bool(server)}",
            phases=((rate, seconds),), last_delay=0.3, timeout=5.0,
            balancing=Balancing(
                algorithm, NO_CHECK, server,
                backend=("option http-server-close",),
                defaults=("timeout queue 5s",),
            ),
        )
        for rate, server, seconds in plans
        for algorithm in ALGORITHMS[:: 2 if smoke else 1]
    ]  # fmt: skip


def measure(rig: Rig) -> Measured:
    """The latencies, and each host's share of the requests."""
    responses = rig.load().result()
    given = [int(rig.balancer.state(h.name)["stot"]) for h in rig.hosts]
    return Measured(responses, {
        f"share_{host.name}": round(many / sum(given), 3)
        for host, many in zip(rig.hosts, given, strict=True)
    })  # fmt: skip
