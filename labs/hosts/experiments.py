"""What is measured: six experiments, each a list of cases."""

from collections.abc import Iterable
from dataclasses import replace

from labs.hosts.balancer import NO_CHECK, Front
from labs.hosts.rig import KILLED, PULLED, RESTART, STOPPED, Case

ONCE, REDISPATCH = "retries 0", "option redispatch 1"
RETRY_ON = "retry-on conn-failure empty-response"
CLOSE = "option http-server-close"
CHECK_HEALTH = "option httpchk GET /healthz"


def together(
    fronts: Iterable[Front], load: float, seconds: float, prefix: str = ""
) -> tuple[Front, ...]:
    """Balancers at the same hosts, each with clients of its own.

    load: requests per second, for each of them.
    """
    return tuple(
        replace(front, variant=prefix + front.variant, seed=seed,
                phases=((load, seconds),))
        for seed, front in enumerate(fronts, 1)
    )


# More hosts, more requests: the load offers more than they can do. What is
# too much waits for a second at the balancer and is refused.
SCALE = [
    Case(
        server, (Front(
            f"{variant}, {hosts} host{'s' * (hosts > 1)}", NO_CHECK,
            (CLOSE, "timeout queue 1s"), server=f"maxconn {most}",
            algorithm="leastconn", phases=((offered * hosts, 5.5),),
        ),),
        delays=(delay,) * hosts, options=options,
    )
    for hosts in (1, 2, 3)
    for server, variant, most, offered, delay, options in (
        ("03-pool", "waits, 10 threads", 10, 125, 0.1, ("--workers", "10")),
        ("02", "waits, one at a time", 1, 12.5, 0.1, ()),
        # One core does about 30 of these in a second.
        ("06", "computes", 2, 100, 0.0, ("--compute", "2000000")),
    )
]  # fmt: skip

# All hosts are restarted one after the other: stopped by a signal at once,
# and as lame ducks, which fail their checks for two seconds first.
STOPS = (
    Front("no retries", lines=(ONCE,)),
    Front("defaults"),  # three tries more, all at the same host
    Front("redispatch", lines=(REDISPATCH,)),
    Front("retry-on", lines=(REDISPATCH, RETRY_ON)),
    Front("drained", lines=(ONCE,), drained=True),
)
SLOWLY = "check inter 2s fall 3 rise 1"
DUCKS = (
    Front("lame duck", lines=(ONCE, CHECK_HEALTH)),
    Front("lame duck, slow check", SLOWLY, (ONCE, CHECK_HEALTH)),
)


RESTARTS = [
    Case(
        server, together((
            replace(front, variant=front.variant + ", kept" * keep, keep=keep)
            for keep in ways for front in fronts
        ), 12.0, seconds),
        (delay,) * 3, options, RESTART,
    )
    for server, delay, ways in (  # 02 and 04 do one thing at a time
        ("02", 0.01, (False,)),  # and 02 keeps no connection
        ("03", 0.1, (False, True)), ("04", 0.01, (False, True)),
        ("05", 0.1, (False, True)), ("06", 0.1, (False, True)),
        ("07", 0.1, (False, True)),
    )
    for fronts, seconds, options in (
        (STOPS, 9.0, ()), (DUCKS, 11.0, ("--lame-duck", "2")),
    )
]  # fmt: skip

# A host dies, loses its cable, is stuck, or is merely busy: how long until
# it is out, and what is lost until then?
GIVE_UP = ("timeout server 3s", "timeout check 1s")
RARE = "check inter 2s fall 3 rise 2"  # as without any of these words
OFTEN = "check inter 500ms fall 2 rise 2"
VERY_OFTEN = "check inter 200ms fall 2 rise 2"
OBSERVE = f"{RARE} observe layer4 error-limit 5 on-error mark-down"
GONE = (
    Front("check every 2 s", RARE, (*GIVE_UP, ONCE)),
    Front("check every 0.5 s", OFTEN, (*GIVE_UP, ONCE)),
    Front("check every 0.2 s", VERY_OFTEN, (*GIVE_UP, ONCE)),
    Front("check every 2 s, observe", OBSERVE, (*GIVE_UP, ONCE)),
    Front("check every 2 s, redispatch", RARE, (*GIVE_UP, REDISPATCH)),
    Front("check every 2 s, retry-on", RARE,
          (*GIVE_UP, REDISPATCH, RETRY_ON)),
)
# A path that is cheap to serve; /healthz takes as long as a page.
CHEAP = ("option httpchk GET /missing", "http-check expect status 404")
STUCK = (
    Front("TCP check", OFTEN, (*GIVE_UP, REDISPATCH)),
    Front("HTTP check", OFTEN, (*GIVE_UP, REDISPATCH, *CHEAP)),
)
HASTY = (CHECK_HEALTH, "timeout check 300ms")
BUSY = (
    Front("TCP check"),
    Front("HTTP check of 2 s", lines=(CHECK_HEALTH, "timeout check 2s")),
    Front("HTTP check of 0.3 s", lines=HASTY),
    Front("HTTP check of 0.3 s, fail open", lines=HASTY, fail_open=True),
)
DEATH = [
    *(
        Case(
            "06", together(fronts, 30.0, seconds, f"{event}: "),
            (0.05,) * 3, event=event,
        )
        for event, fronts, seconds in (
            (KILLED, GONE, 10.0), (PULLED, GONE, 11.5), (STOPPED, STUCK, 8.0),
        )
    ),
    Case(
        "04", together(STUCK, 30.0, 8.0, "a long request: "),
        (0.01, 0.01, 60.0),
    ),
    # 90 % of what three hosts do that work 0.1 s, one by one.
    *(Case("04", together([one], 27.0, 11.0, "busy: ")) for one in BUSY),
]

# One slow host: 100, 100 and 33 requests per second are possible, so a
# third of the load is less, or more, than it can do; then with a limit: no
# more requests at once than a host has threads.
SLOW = [
    Case(
        "03-pool", (Front(
            f"{algorithm}, {rate}/s{', a limit' * bool(limit)}", NO_CHECK,
            (CLOSE, "timeout queue 5s"), server=limit, algorithm=algorithm,
            phases=((rate, seconds),), timeout=5.0,
        ),),
        (0.1, 0.1, 0.3), ("--workers", "10"),
    )
    for rate, limit, seconds in (
        (75, "", 4.0), (150, "", 9.0), (150, "maxconn 10", 9.0),
    )
    for algorithm in ("roundrobin", "random(2)", "leastconn")
]  # fmt: skip

# Three pools of five threads can serve 150 requests per second. Clients
# give up after a second and ask again; the servers work for those that
# gave up, too.
THREADS = 5
STORM = [
    Case(
        "03-pool", (Front(
            variant, NO_CHECK, (CLOSE, ONCE, "timeout server 30s", *queue),
            server=server, algorithm="leastconn", timeout=1.0, tries=tries,
            phases=((100, 4.0), (200, 8.0), (100, 16.0)),
        ),),
        options=("--workers", str(THREADS)),
    )
    for variant, tries, server, queue in (
        ("no bound, one try", 1, "", ()),
        ("no bound, three tries", 3, "", ()),
        ("queue of 0.3 s, three tries", 3, f"maxconn {THREADS}",
         ("timeout queue 300ms",)),
    )
]  # fmt: skip

# Whoever keeps an idle connection longer than its peer does may send a
# request into it just as the peer closes. So all clients ask at once, and
# again when their connections are as old as our servers let them get, or
# some milliseconds older. Each request computes for some milliseconds: a
# server that is never busy hears of a request in time, nearly always.
IDLE_SECONDS = 5.0
CLIENTS, BURST_RATE, PAUSE = 80, 1500.0, 1e-9  # the last two: requests/s
LATER = (0.0, 0.01, 0.02, 0.04)  # seconds
# The client's connection may be idle for a minute, a host's as well.
MINUTE = ("timeout http-keep-alive 60s", "timeout client 60s")
POOL = "pool-purge-delay 60s"


def bursts(first: float) -> tuple[tuple[float, float], ...]:
    """The phases of such a load; first: seconds before.

    Nothing is due in a pause but one request as it begins.
    """
    burst = (BURST_RATE, (CLIENTS - 0.5) / BURST_RATE)
    phases = [(PAUSE, first), burst]
    for seconds in LATER:
        phases += [(PAUSE, IDLE_SECONDS - burst[1] + seconds), burst]
    return tuple(phases)


SEEN = [Case("06", tuple(
    Front(
        variant, NO_CHECK, lines, server=server, keep=True, seed=0,
        phases=bursts(first),
    )
    for variant, lines, server, first in (
        ("the server closes first", (*MINUTE, ONCE), POOL, 0.0),
        ("the server closes first, retry-on", (*MINUTE, RETRY_ON), POOL, 1.6),
        # Without a pool, the connection to a host ends with the client's.
        ("the balancer closes first",
         (ONCE, "http-reuse never", "timeout http-keep-alive 4s"), "", 3.2),
    )
), (0.0,) * 3, ("--compute", "50000"))]  # fmt: skip


# Name -> its cases, and which of them are a smoke run.
EXPERIMENTS: dict[str, tuple[list[Case], tuple[int, ...]]] = {
    "scale": (SCALE, (5,)), "restart": (RESTARTS, (4, 5)),
    "death": (DEATH, (0, 1)), "slow": (SLOW, (3,)), "storm": (STORM, (1,)),
    "seen": (SEEN, (0,)),
}
