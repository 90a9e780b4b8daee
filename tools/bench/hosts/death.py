"""A host dies, loses its cable, is stuck, or is merely busy.

What happens is seen by several balancers with different settings, each
with a load of its own: how long until the host is out, what is lost?
"""

import signal
import time
from collections.abc import Callable
from dataclasses import replace

from tools.bench.hosts.balancer import Balancing
from tools.bench.hosts.lost import causes
from tools.bench.hosts.rig import Case, Host, Load, Measured, Rig

HELP = "a host dies, is stuck, or busy: how long until it is out"
AT_SECONDS = 2.0  # of the load: when it happens
RATE = 30.0  # requests/s of each load
BUSY_RATE = 27.0  # 90 % of what three hosts do that work 0.1 s, one by one
ONCE, REDISPATCH = "retries 0", "option redispatch 1"
RETRY_ON = "retry-on conn-failure empty-response"
# Both go past the server's loop, and /healthz takes as long as a page.
DEAR = ("option httpchk GET /healthz",)
CHEAP = ("option httpchk GET /missing", "http-check expect status 404")
GIVE_UP = ("timeout server 3s", "timeout check 1s")
RARE = "check inter 2s fall 3 rise 2"  # as without any of these words
OFTEN = "check inter 500ms fall 2 rise 2"
VERY_OFTEN = "check inter 200ms fall 2 rise 2"
OBSERVE = f"{RARE} observe layer4 error-limit 5 on-error mark-down"
BUSY_CHECK = "check inter 500ms fall 2 rise 1"

Settings = dict[str, Balancing]
GONE: Settings = {
    name: Balancing(check=check, backend=backend, defaults=GIVE_UP)
    for name, check, backend in (
        ("check every 2 s", RARE, (ONCE,)),
        ("check every 0.5 s", OFTEN, (ONCE,)),
        ("check every 0.2 s", VERY_OFTEN, (ONCE,)),
        ("check every 2 s, observe", OBSERVE, (ONCE,)),
        ("check every 2 s, redispatch", RARE, (REDISPATCH,)),
        ("check every 2 s, retry-on", RARE, (REDISPATCH, RETRY_ON)),
    )
}
STUCK: Settings = {
    "TCP check": Balancing(
        check=OFTEN, backend=(REDISPATCH,), defaults=GIVE_UP
    ),
    "HTTP check": Balancing(
        check=OFTEN, backend=(REDISPATCH, *CHEAP), defaults=GIVE_UP
    ),
}
BUSY: Settings = {
    "TCP check": Balancing(check=BUSY_CHECK),
    "HTTP check of 2 s": Balancing(
        check=BUSY_CHECK, backend=DEAR, defaults=("timeout check 2s",)
    ),
    "HTTP check of 0.3 s": Balancing(
        check=BUSY_CHECK, backend=DEAR,
        defaults=("timeout check 300ms",),
    ),
    "HTTP check of 0.3 s, fail open": Balancing(
        check=BUSY_CHECK, backend=DEAR,
        defaults=("timeout check 300ms",), fail_open=True,
    ),
}  # fmt: skip
KILLED, PULLED, STOPPED = "kill -9", "cable pulled", "stopped"
LONG, WORKING = "a long request", "busy"
EVENTS: dict[str, Callable[[Host], None]] = {
    KILLED: Host.kill,
    PULLED: Host.pull,
    STOPPED: lambda host: host.signal(signal.SIGSTOP),
}


def cases(smoke: bool) -> list[Case]:
    """Each event, with the settings that it tells apart."""
    if smoke:
        return [
            together("06", event, GONE, 3.5) for event in (KILLED, PULLED)
        ]
    return [
        together("06", KILLED, GONE, 10.0),
        together("06", PULLED, GONE, 11.5),
        together("06", STOPPED, STUCK, 8.0),
        together("04", LONG, STUCK, 8.0, delay=0.01),
        *(
            together("04", WORKING, {name: balancing}, 11.0, BUSY_RATE, 0.1)
            for name, balancing in BUSY.items()
        ),
    ]


def together(
    server: str, event: str, settings: Settings, seconds: float,
    rate: float = RATE, delay: float = 0.05,
) -> Case:
    """What happens to three hosts, as seen with each of these settings."""
    one, *beside = [
        Case(
            server=server, variant=f"{event}: {name}", delay=delay,
            last_delay=60.0 if event == LONG else None,
            phases=((rate, seconds),), balancing=balancing, seed=seed,
            cable=event == PULLED,
        )
        for seed, (name, balancing) in enumerate(settings.items(), 1)
    ]
    return replace(one, beside=tuple(beside))


def measure(rig: Rig) -> list[Measured]:
    """Let it happen, and see when the last host is out."""
    event = rig.case.variant.partition(": ")[0]
    last = rig.hosts[-1]
    loads = rig.load_all()
    happened = loads[0].wall
    if event in EVENTS:
        loads[-1].reach(AT_SECONDS)
        happened = time.time()
        EVENTS[event](last)
    return [
        measured(each, load, happened)
        for each, load in zip(rig.all, loads, strict=True)
    ]


def measured(rig: Rig, load: Load, happened: float) -> Measured:
    """What one balancer saw. happened: Unix time."""
    responses = load.result()
    downs, last = rig.balancer.downs(), rig.balancer.downs(rig.hosts[-1].name)
    nobody = [
        text for _, text in rig.balancer.notices
        if "has no server available" in text
    ]  # fmt: skip
    extra: dict[str, float] = {
        "times_out": len(downs), "times_all_out": len(nobody),
    }  # fmt: skip
    if last:
        extra["out_seconds"] = round(last[0] - happened, 2)
    lost = [row[0] + load.wall for row in responses.rows if row[2] != "ok"]
    if lost:
        extra["last_lost_seconds"] = round(lost[-1] - happened, 2)
    return Measured(responses, extra | causes(rig, responses))
