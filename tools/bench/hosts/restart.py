"""All hosts restarted one after the other, under load: what is lost?

Each restart is seen by several balancers with different settings, each
with a load of its own: so all of them meet the same moments.
"""

import itertools
import statistics
import time
from dataclasses import replace
from functools import partial

from tools.bench.hosts.balancer import Balancing
from tools.bench.hosts.lost import causes
from tools.bench.hosts.rig import Case, Measured, Rig
from tools.common.launch import eventually
from tools.servers import YES, by_name

HELP = "all hosts restarted one after the other, by server and setting"
SERVERS = ("02", "03", "04", "05", "06", "07")
WORK = {"02": 0.01, "04": 0.01}  # seconds: they do one thing at a time
OTHERS_WORK = 0.1
RATE = 12.0  # requests/s of each load
FIRST_SECONDS, REST_SECONDS = 1.0, 0.4  # before a restart, after it
LAST_SECONDS = 3.0  # of the load: no restart begins any more
UP_SECONDS = 5.0  # until all balancers hold a host for healthy again

ONCE, REDISPATCH = "retries 0", "option redispatch 1"
DRAINED = "drained"
SETTINGS = {
    "no retries": Balancing(backend=(ONCE,)),
    "defaults": Balancing(),  # three tries more, all at the same host
    "redispatch": Balancing(backend=(REDISPATCH,)),
    "retry-on": Balancing(
        backend=(REDISPATCH, "retry-on conn-failure empty-response")
    ),
    DRAINED: Balancing(backend=(ONCE,)),
}
DUCK = 2.0  # seconds
HEALTH = "option httpchk GET /healthz"
DUCKS = {
    "lame duck": Balancing(backend=(ONCE, HEALTH)),
    "lame duck, slow check": Balancing(
        check="check inter 2s fall 3 rise 1", backend=(ONCE, HEALTH)
    ),
}


def cases(smoke: bool) -> list[Case]:
    """Each server, stopped by a signal at once and as a lame duck."""
    found = []
    for server in ("04",) if smoke else SERVERS:
        keeps = by_name(server).lessons["keep_alive"] == YES
        for settings, seconds, options in (
            (SETTINGS, 4.0 if smoke else 9.0, ()),
            (DUCKS, 6.0 if smoke else 11.0, ("--lame-duck", f"{DUCK:g}")),
        ):
            one, *beside = [
                Case(
                    server=server, variant=variant + ", kept" * keep,
                    keep=keep, hosts=2 if smoke else 3,
                    delay=WORK.get(server, OTHERS_WORK), options=options,
                    phases=((RATE, seconds),), balancing=balancing, seed=seed,
                )
                for seed, (keep, (variant, balancing)) in enumerate(
                    itertools.product(
                        (False, True)[: 1 + keeps], settings.items()
                    ), 1,
                )
            ]
            found.append(replace(one, beside=tuple(beside)))
    return found


def measure(rig: Rig) -> list[Measured]:
    """Restart all, one after the other, as often as there is time."""
    drained = [
        r.balancer for r in rig.all if r.case.variant.startswith(DRAINED)
    ]
    loads = rig.load_all()
    loads[-1].reach(FIRST_SECONDS)
    stops: list[float] = []
    for host in itertools.cycle(rig.hosts):
        over = loads[0].now > rig.case.seconds - LAST_SECONDS
        if over and len(stops) >= len(rig.hosts):
            break
        for balancer in drained:
            balancer.drain(host.name)
        stops.append(host.stop())
        host.start()
        for balancer in drained:
            balancer.ready(host.name)
        eventually(partial(all_hold_up, rig, host.name), UP_SECONDS)
        time.sleep(REST_SECONDS)
    found = []
    for each, load in zip(rig.all, loads, strict=True):
        responses = load.result()
        found.append(Measured(responses, {
            "restarts": len(stops),
            "stop_seconds": round(statistics.mean(stops), 3),
            **causes(each, responses),
        }))  # fmt: skip
    return found


def all_hold_up(rig: Rig, host: str) -> bool:
    """Do all balancers hold this host for healthy?"""
    return all(each.balancer.is_up(host) for each in rig.all)
