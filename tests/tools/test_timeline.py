"""The timeline: calls and clients become a recording.

The small servers here are made up, one line a call: thread, µs after
START, how long it took, and what is called, by its name in CALLS.
"""

import itertools
from dataclasses import astuple, replace
from typing import NamedTuple

import pytest

from tools.bench import calls
from tools.bench.recording.burst import Moments
from tools.bench.recording.timeline import (
    MOST_COUNTS,
    Timeline,
    TimelineError,
    build,
    simplify,
)
from tools.data.recording import Span

START = 1_700_000_000_000_000
DELAY = 0.001  # seconds; long enough for times that one can read
CALLS = {  # as strace writes them
    "accept": "accept4(3, {{sa_family=AF_INET, sin_port=htons({1}), "
              "sin_addr=x}}, [16], SOCK_CLOEXEC) = {0}",
    "recv": 'recvfrom({0}, "G"..., 16384, 0, NULL, NULL) = 60',
    "end": 'recvfrom({0}, "", 16384, 0, NULL, NULL) = 0',
    "send": 'sendto({0}, "H"..., 385, 0, NULL, 0) = 385',
    "close": "close({0})        = 0",
    "poll": "poll([{{fd={0}, events=POLLIN}}], 1, 500) = 1 "
            "([{{fd={0}, revents=POLLIN}}])",
    "clone": "clone3({{flags=CLONE_VM, stack=0x7f}}, 88) = {0}",
    "sleep": "clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, 0x7f) = 0",
    "look": "epoll_wait(4, 0x7f, 22, 500) = 1",
    "lock": "futex(0x55, FUTEX_WAIT_BITSET_PRIVATE, 0, NULL, X) = 0",
    "timeout": "futex(0x55, FUTEX_WAIT_BITSET_PRIVATE, 0, 0x7f, X) = -1 "
               "ETIMEDOUT (Connection timed out)",
    "other": "ioctl(4, FIONBIO, 0x7f) = 0",
    "bell": 'sendto(6, "!", 1, 0, NULL, 0) = 1',
    "ring": "io_uring_enter(3, 1, 1, GETEVENTS, NULL, 0) = 1",
}


class Seen(NamedTuple):
    """What these clients saw, and these calls of a server.

    threads: of the server, thread -> process; owners: see `build`.
    """

    clients: list[Moments]
    threads: dict[int, int]
    script: str
    owners: dict[int, int] = {}  # noqa: RUF012

    def built(self) -> Timeline:
        """What they become."""
        texts: dict[int, str] = {}
        rows = [line.split() for line in self.script.splitlines()]
        for row in sorted(filter(None, rows), key=lambda row: int(row[1])):
            thread, at = map(int, row[:2])
            call = CALLS[row[3]].format(*row[4:])
            seconds, rest = divmod(START + at, 1_000_000)
            if row[2] == "-":
                call = f"{call.partition(')')[0]} <detached ...>"
            else:
                call += f" <{int(row[2]) / 1e6:.6f}>"
            text = f"{seconds}.{rest:06} {call}\n"
            texts[thread] = texts.get(thread, "") + text
        made = [calls.parse(text, thread) for thread, text in texts.items()]
        return build(
            sorted(itertools.chain(*made), key=lambda call: call.begin),
            self.clients, self.threads, DELAY, self.owners,
        )

    def but(self, *times: int, more: str = "") -> "Seen":
        """The same without the calls that begin at these times."""
        script = "".join(
            f"{line}\n" for line in self.script.splitlines()
            if not {f"{at}" for at in times} & {*line.split()[1:2]}
        )
        return self._replace(script=script + more)


def moments(port: int, first: int, done: int, begun: int = 0) -> Moments:
    """What a client saw: it connects, sends 2 µs later, waits."""
    return Moments(
        port, START + begun, START + begun + 3, START + begun + 5,
        START + first, START + done,
    )


# Two clients, one thread, as in step 02. The first call begins before the
# first client, the last after the last one's end. The first client sends
# more behind its request, its response leaves in two parts, and a file gets
# its descriptor later.
ONE_BY_ONE = Seen(
    [moments(40001, 1080, 1090), moments(40002, 2180, 2190, begun=1)],
    {7: 7}, """
    7 -50 60 poll 3
    7 12 3 accept 4 40001
    7 20 2 other
    7 25 5 recv 4
    7 40 1000 sleep
    7 1050 20 send 4
    7 1072 2 send 4
    7 1075 10 poll 4
    7 1086 1 end 4
    7 1088 1 recv 4
    7 1090 5 close 4
    7 1096 2 recv 4
    7 1100 2 poll 3
    7 1105 5 accept 4 40002
    7 1120 5 recv 4
    7 1130 1000 sleep
    7 2150 20 send 4
    7 2195 5 close 4
    7 2210 500 poll 3
    """)
# It reads the second client's request first, and the younger of the threads
# begins to wait first. Each rings a bell: that is no response.
TIMERS = Seen(
    [moments(40001, 1075, 1080), moments(40002, 1085, 1090)], {7: 7}, """
    7 -90 100 look
    7 11 1 accept 8 40001
    7 13 1 accept 9 40002
    7 15 2 look
    7 20 1 recv 9
    7 22 5 clone 70
    7 28 10 lock
    70 30 2 lock
    7 40 1 recv 8
    7 42 5 clone 71
    71 50 990 timeout
    70 60 1000 timeout
    7 60 1000 look
    71 1050 1 bell
    70 1065 1 bell
    7 1070 2 send 8
    7 1080 2 send 9
    7 1090 2 close 8
    7 1095 2 close 9
    """)
EXECUTOR = Seen(
    [
        moments(40001, 1090, 1095), moments(40002, 2095, 2099),
        moments(40003, 1085, 1086),
    ], {7: 7, 70: 7, 71: 7}, """
    7 -90 100 look
    70 -90 140 lock
    71 -90 150 lock
    7 11 1 accept 8 40001
    7 13 1 accept 9 40002
    7 15 1 accept 10 40003
    7 20 1 recv 10
    7 22 1 recv 8
    7 24 1 recv 9
    70 55 1000 sleep
    71 66 1000 sleep
    71 1071 300 sleep
    70 1060 1000 sleep
    7 30 1040 look
    7 1080 1 send 10
    7 1082 1 send 8
    7 1084 1000 look
    7 2090 1 send 9
    70 2070 5000 lock
    71 1372 5000 lock
    7 2108 1 close 8
    7 2109 1 close 9
    7 2110 1 close 10
    """)
# Two workers with a ring each; their parent sleeps. One still waits when
# strace lets go.
RINGS = Seen(
    [
        moments(40001, 1056, 1095), moments(40002, 1075, 1090, begun=16),
        moments(40003, 1070, 1080),
    ], {7: 7, 70: 70, 71: 71}, """
    7 5 5000 sleep
    70 -50 70 ring
    71 -50 73 ring
    70 30 4 ring
    70 40 6 ring
    70 50 992 ring
    71 30 5 ring
    71 45 1010 ring
    70 1050 10 ring
    70 1065 - ring
    71 1060 20 ring
    """, {40001: 70, 40002: 70, 40003: 71})
# The same descriptor in two processes.
WORKERS = Seen(
    [moments(40001, 30, 40), moments(40002, 30, 40)], {7: 7, 8: 8}, """
    8 10 1 accept 4 40002
    8 12 1 recv 4
    7 14 1 accept 4 40001
    7 16 1 recv 4
    8 20 1 send 4
    7 25 1 send 4
    """)
# An accept that begins before a close can give back what that closed.
REUSED = Seen(
    [moments(40001, 40, 50), moments(40002, 130, 140)], {7: 7, 8: 7}, """
    7 10 1 accept 4 40001
    8 20 1 recv 4
    7 22 78 accept 4 40002
    8 30 1 send 4
    8 90 1 close 4
    8 110 1 recv 4
    8 120 1 send 4
    """)
LOCKS = TIMERS._replace(script=TIMERS.script.replace("timeout", "lock"))


@pytest.mark.parametrize(("seen", "served", "lanes", "spans"), [
    # served: accepted, read, answered and lane of each client.
    (ONE_BY_ONE, [(15, 30, 1050, 0), (1110, 1125, 2150, 0)], ["main"],
     {"0 wait 0-10", "0 work 10-12", "0 accept 12-15", "0 read 25-30",
      "0 work 30-40", "0 wait 40-1040 for 0", "0 wait 1075-1085 for 0",
      "0 work 1086-1087", "0 read 1088-1089", "0 wait 1096-1098",
      "0 wait 1100-1102", "0 wait 1130-2130 for 1", "0 write 2150-2170",
      "0 work 2170-2190"}),
    (TIMERS, [(12, 41, 1070, 2), (14, 21, 1080, 1)],
     ["main", "timer 1", "timer 2"],
     {"0 wait 60-1060", "1 wait 60-1060 for 1", "2 wait 50-1040 for 0",
      "2 work 1050-1051"}),
    # A lock that is given ends the same wait, but is no timer.
    (LOCKS, [(12, 41, 1070, 0), (14, 21, 1080, 0)],
     ["main", "thread 1", "thread 2"], {"1 wait 60-1060"}),
    (EXECUTOR, [(12, 23, 1082, 2), (14, 25, 2090, 1), (16, 21, 1080, 1)],
     ["main", "thread 1", "thread 2"],
     {"1 wait 0-50", "1 wait 55-1055 for 2", "1 wait 1060-2060 for 1",
      "2 wait 66-1066 for 0", "2 wait 1071-1371", "2 wait 1372-2099"}),
    (RINGS, [(20, 34, 1042, 0), (34, 46, 1060, 0), (23, 35, 1055, 1)],
     ["worker 1", "worker 2"], {"0 wait 40-46", "1 wait 45-1055"}),
    (WORKERS, [(15, 17, 25, 0), (11, 13, 20, 1)],
     ["worker 1", "worker 2"], set()),
    (REUSED, [(11, 21, 30, 1), (100, 111, 120, 1)], ["main", "thread 1"],
     set()),
], ids=["one by one", "timers", "locks", "executor", "rings", "workers",
        "reused"])
def test_calls_become_a_timeline(
    seen: Seen, served: list[tuple[int, ...]], lanes: list[str],
    spans: set[str],
) -> None:
    made = seen.built()
    assert [astuple(client)[5:] for client in made.clients] == served
    assert [lane.name for lane in made.lanes] == lanes
    workers = [int("worker 2" in name) for name in lanes]
    assert [lane.worker for lane in made.lanes] == workers
    assert spans <= {
        f"{at} {s.kind} {s.begin}-{s.end}" + f" for {s.client}" *
        (s.client >= 0) for at, lane in enumerate(made.lanes)
        for s in lane.spans
    }


def test_what_clients_saw_and_all_calls_are_kept() -> None:
    made = ONE_BY_ONE.built()
    assert astuple(made.clients[1])[:5] == (1, 4, 6, 2180, 2190)
    # Neither the call that began before nor those after the last client.
    assert made.calls_by_name["recvfrom"] == 5
    assert (made.calls[0], made.calls[-1]) == ((12, 1), (2150, 16))
    # What the parent of workers does counts, too.
    assert RINGS.built().calls_by_name["clock_nanosleep"] == 1
    many = "".join(f"7 {200 + n} 0 other\n" for n in range(700))
    made = ONE_BY_ONE.but(40, more=many).built()
    assert len(made.calls) <= MOST_COUNTS
    assert made.calls[-1][1] == sum(made.calls_by_name.values()) == 715


def moved(**wrong: int) -> Seen:
    """The second client says something else, in µs after START."""
    first, second = ONE_BY_ONE.clients
    times = {name: START + at for name, at in wrong.items()}
    return ONE_BY_ONE._replace(clients=[first, replace(second, **times)])


@pytest.mark.parametrize(("seen", "why"), [
    (ONE_BY_ONE.but(1105), "not seen to be accepted"),
    (ONE_BY_ONE.but(1120), "not seen to be read"),
    (ONE_BY_ONE.but(2150), "not seen to be answered"),
    (RINGS._replace(owners={40001: 70, 40002: 70}), "seen to be accepted"),
    (RINGS.but(45, 1060, more="71 45 9 ring\n71 60 - ring"),
     "not seen to be answered"),
    (EXECUTOR.but(1060), "2 sleeps for 3 requests"),
    (EXECUTOR.but(1060, 2070, more="70 1060 1100 sleep"), "not be told"),
    (moved(sent=1126), "clocks"),  # it was received before
    (moved(first_byte=2149), "clocks"),  # answered too late
    (moved(connected=7), "clocks"),  # later than sent
    (moved(begun=1111, connected=1112, sent=1113), "clocks"),  # too soon
])
def test_calls_and_clients_that_do_not_fit(seen: Seen, why: str) -> None:
    with pytest.raises(TimelineError, match=why):
        seen.built()


def test_what_is_tiny_is_merged() -> None:
    spans = (
        Span("wait", 0, 100), Span("work", 100, 103), Span("read", 103, 105),
        Span("work", 105, 108), Span("wait", 108, 112),  # for Python's lock
        Span("work", 112, 115), Span("work", 116, 120),  # after a gap
        Span("wait", 120, 200, 1), Span("wait", 200, 260, 2),
    )
    merged = (*spans[:3], Span("work", 105, 115), *spans[6:])
    assert simplify(spans, 10) == merged
    assert simplify(spans, 4) == spans  # it is not tiny
