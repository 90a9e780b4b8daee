"""More hosts, more requests: one, two and three of them.

The load offers more than they can do. What is too much waits for a second
at the balancer and is refused, so what is answered is what they can do.
"""

import http.client
import time
from dataclasses import replace

from tools.bench.hosts.balancer import NO_CHECK, Balancing
from tools.bench.hosts.rig import Case, Measured, Rig

HELP = "one, two, three hosts: requests per second"
OFFERED = 1.25  # times what the hosts can do
COMPUTE = 400_000  # turns of a loop in each request
FIRST_SECONDS = 1  # until all are busy; not counted
PROBES = 5


def cases(smoke: bool) -> list[Case]:
    """Waiting in threads, waiting one by one, computing."""
    seconds = 2.5 if smoke else 5.5
    found = []
    for hosts in (2,) if smoke else (1, 2, 3):
        many = f"{hosts} host{'s' * (hosts > 1)}"
        for server, variant, threads, options in (
            ("03-pool", "waits, 10 threads", 10, ("--workers", "10")),
            ("02", "waits, one at a time", 1, ()),
            ("06", "computes", 2, ("--compute", str(COMPUTE))),
        ):
            found.append(Case(
                server=server, variant=f"{variant}, {many}",
                hosts=hosts, options=options,
                delay=0.0 if server == "06" else 0.1,
                phases=((OFFERED * hosts * threads / 0.1, seconds),),
                balancing=Balancing(
                    "leastconn", NO_CHECK, f"maxconn {threads}",
                    backend=("option http-server-close",),
                    defaults=("timeout queue 1s",),
                ),
            ))  # fmt: skip
    return found


def measure(rig: Rig) -> Measured:
    """What is answered each second, once all hosts are busy."""
    case = rig.case
    (rate, seconds), extra = case.phases[0], {}
    if "--compute" in case.options:
        alone = per_second(rig)
        extra["alone_per_second"] = round(alone, 1)
        rate = OFFERED * case.hosts * alone
        rig.case = case = replace(case, phases=((rate, seconds),))
    responses = rig.load().result()
    counted = responses.per_second(seconds)[FIRST_SECONDS:]
    extra["answered_per_second"] = sum(counted) / len(counted)
    extra["possible_per_second"] = rate / OFFERED
    return Measured(responses, extra)


def per_second(rig: Rig) -> float:
    """How many requests one client alone gets answered in a second."""
    best = 1e9
    for _ in range(PROBES):
        client = http.client.HTTPConnection(*rig.address)
        begun = time.monotonic()
        client.request("GET", "/")
        client.getresponse().read()
        best = min(best, time.monotonic() - begun)
        client.close()
    return 1 / best
