"""A model of a restart: two hosts behind a balancer, one by one.

Time is only a number here. So a minute takes no time, and the same
settings always lose the same requests.
"""

import math
from dataclasses import dataclass, field

Settings = dict[str, float]

TICK = 0.025  # seconds; a request comes with each tick
FIRST = 10.0  # seconds: SIGTERM of the first host
START = 1.0  # from the end of a host until it listens again
USUAL, LONG = 0.3, 3.0  # that a request takes; each seventh takes long
END = 90.0
NEVER = math.inf


@dataclass
class Host:
    """One host, as it is and as the balancer sees it. In seconds."""

    stop: float = NEVER  # SIGTERM: it is a lame duck from here on
    close: float = NEVER  # its listener closes
    back: float = NEVER  # it listens again
    out: float = NEVER  # the balancer takes it out
    again: float = NEVER  # and in again
    ends: list[float] = field(default_factory=list)  # in progress
    bad: int = 0  # checks that failed, one after the other
    good: int = 0

    def listens(self, now: float) -> bool:
        """Can anybody connect?"""
        return now < self.close or now >= self.back

    def is_in(self, now: float) -> bool:
        """Does the balancer send it requests?"""
        return now < self.out or now >= self.again

    def check(self, now: float, settings: Settings) -> None:
        """The balancer looks at it."""
        healthy = self.listens(now)
        if settings["http"]:  # it hears of the lame duck
            healthy = now < self.stop or now >= self.back
        self.good, self.bad = (
            (self.good + 1, 0) if healthy else (0, self.bad + 1)
        )
        if self.bad == settings["fall"]:
            self.out = now
        enough = self.good == settings["rise"]
        if enough and self.out < now < self.again:
            self.again = now


def play(
    settings: Settings, phase: float = 0.5
) -> tuple[list[Host], dict[str, list[float]]]:
    """Both hosts, and when requests were lost, by the reason.

    phase: when the balancer checks for the first time, in seconds.
    """
    duck, grace, pause, every = (
        settings[name]
        for name in ("lame_duck", "grace", "pause", "check_every")
    )
    hosts, due = [Host(FIRST), Host()], phase
    lost: dict[str, list[float]] = {}
    for number in range(int(END / TICK)):
        now = number * TICK
        for at, host in enumerate(hosts):
            host.close = host.stop + duck
            host.ends = [end for end in host.ends if end > now]
            kill = host.close + grace
            if host.back == NEVER and now >= host.close and (
                not host.ends or now >= kill
            ):  # it ends
                lost.setdefault("cut off", []).extend(
                    now for _ in host.ends
                )
                host.back = now + START
                if at == 0:
                    hosts[1].stop = host.back + pause
        if now >= due:
            due += every
            for host in hosts:
                host.check(now, settings)
        here = [host for host in hosts if host.is_in(now)]
        if not here:
            lost.setdefault("nobody left", []).append(now)
        elif (host := here[number % len(here)]).listens(now):
            host.ends.append(now + (USUAL if number % 7 else LONG))
        else:
            lost.setdefault("refused", []).append(now)
    return hosts, {why: times for why, times in lost.items() if times}


def show(name: str, settings: Settings) -> None:
    """Print what happens with these settings."""
    hosts, lost = play(settings)
    print(f"{name}: {sum(map(len, lost.values()))} requests lost")
    for number, host in enumerate(hosts, 1):
        print(
            f"  host {number}: SIGTERM {host.stop:.1f} s, "
            f"listener closed {host.close:.1f} s, "
            f"back {host.back:.1f} s"
            f"\n    for the balancer: out {host.out:.1f} s, "
            f"in again {host.again:.1f} s"
        )
    for why, times in lost.items():
        print(
            f"  {len(times)} {why}, from {times[0]:.1f} s "
            f"to {times[-1]:.1f} s"
        )
