"""The storm that does not end: a spike, clients that try again, a queue.

Three pools of five threads with 0.1 s can answer 150 requests per second.
Usually 100 come, for a while 200. Clients give up after a second, and ask
again; the servers work for those that gave up, too.
"""

from tools.bench.hosts.balancer import NO_CHECK, Balancing
from tools.bench.hosts.rig import Case, Measured, Rig

HELP = "twice the load for a while, with clients that try again"
THREADS, TIMEOUT, TRIES = 5, 1.0, 3
USUAL, SPIKE = 100, 200  # requests per second
BOUND = (f"maxconn {THREADS}", "timeout queue 300ms")


def cases(smoke: bool) -> list[Case]:
    """Without a bound, with and without more tries; with a bound."""
    before, during, after = (1.0, 1.0, 1.0) if smoke else (4.0, 8.0, 16.0)
    return [
        Case(
            server="03-pool", options=("--workers", str(THREADS)),
            variant=variant, timeout=TIMEOUT, tries=tries,
            phases=((USUAL, before), (SPIKE, during), (USUAL, after)),
            balancing=Balancing(
                "leastconn", NO_CHECK, server,
                backend=("option http-server-close", "retries 0"),
                defaults=("timeout server 30s", *queue),
            ),
        )
        for variant, tries, server, queue in (
            ("no bound, one try", 1, "", ()),
            ("no bound, three tries", TRIES, "", ()),
            ("queue of 0.3 s, three tries", TRIES, BOUND[0], BOUND[1:]),
        )[1 if smoke else 0 :]
    ]  # fmt: skip


def measure(rig: Rig) -> Measured:
    """Good answers in each second; the share of good ones in each phase."""
    responses = rig.load().result()
    extra, since = {}, 0.0
    for name, (_, seconds) in zip(
        ("before", "during", "after"), rig.case.phases, strict=True
    ):
        of = responses.between(since, since + seconds)
        extra[f"good_{name}_percent"] = percent(len(of.good), len(of.rows))
        since += seconds
    last = responses.between(since - 5.0, since)
    extra["good_at_the_end_percent"] = percent(
        len(last.good), len(last.rows)
    )
    extra["attempts"] = sum(row[4] for row in responses.rows)
    sent: list[float] = [
        len(responses.between(second, second + 1).rows)
        for second in range(int(since))
    ]
    return Measured(responses, extra, {
        "sent": sent, "good": responses.per_second(since),
    })  # fmt: skip


def percent(some: int, of: int) -> float:
    """A share in percent."""
    return round(100 * some / of, 1) if of else 0.0
