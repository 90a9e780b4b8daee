"""The timeline: calls and clients become a recording.

The small servers here are made up, one line a call: thread, µs after
START, how long it took, and what is called, by its name in CALLS.
"""

import itertools
from collections.abc import Iterable
from dataclasses import astuple, replace

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
from tools.data.recording import NOBODY, Span, most_at_once

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
    "ring": "io_uring_enter(3, {0}, 1, GETEVENTS, NULL, 0) = {0}",
}


def built(
    seen: list[Moments], processes: dict[int, int], script: str,
    owners: dict[int, int] | None = None,
) -> Timeline:
    """What these clients saw and these calls become.

    processes: of the server's threads; owners: see `build`.
    """
    texts: dict[int, str] = {}
    rows = [line.partition("#")[0].split() for line in script.splitlines()]
    for row in sorted(filter(None, rows), key=lambda row: int(row[1])):
        thread, at, took = map(int, row[:3])
        call = CALLS[row[3]].format(*row[4:])
        seconds, rest = divmod(START + at, 1_000_000)
        text = f"{seconds}.{rest:06} {call} <{took / 1e6:.6f}>\n"
        texts[thread] = texts.get(thread, "") + text
    made = [calls.parse(text, thread) for thread, text in texts.items()]
    return build(
        sorted(itertools.chain(*made), key=lambda call: call.begin), seen,
        processes, DELAY, owners or {},
    )


def without(script: str, *times: int) -> str:
    """The same without the calls that begin at these times."""
    return "".join(
        f"{line}\n" for line in script.splitlines()
        if not {f"{at}" for at in times} & {*line.split()[1:2]}
    )


def moments(port: int, first: int, done: int, begun: int = 0) -> Moments:
    """What a client saw: it connects, sends 2 µs later, waits."""
    return Moments(
        port, START + begun, START + begun + 3, START + begun + 5,
        START + first, START + done,
    )


TWO = [moments(40001, 1080, 1090), moments(40002, 2180, 2190, begun=1)]
ONE_BY_ONE = """  # two clients, one thread, as in step 02
    7 -50 60 poll 3
    7 12 3 accept 4 40001
    7 20 2 other
    7 25 5 recv 4
    7 40 1000 sleep
    7 1050 20 send 4
    7 1075 10 poll 4
    7 1086 1 end 4
    7 1090 5 close 4
    7 1100 2 poll 3
    7 1105 5 accept 4 40002
    7 1120 5 recv 4
    7 1130 1000 sleep
    7 2150 20 send 4
    7 2195 5 close 4
    7 2210 500 poll 3
"""


def one_by_one(script: str) -> Timeline:
    return built(TWO, {7: 7}, script)


def shown(spans: Iterable[Span]) -> list[str]:
    """Spans in a few characters: what, from, to, and for whom."""
    return [
        f"{s.kind} {s.begin}-{s.end}" + f" for {s.client}" * (s.client >= 0)
        for s in spans
    ]


def lanes(made: Timeline) -> tuple[list[str], list[int]]:
    """The names of the lanes, and the place of each client's."""
    return (
        [lane.name for lane in made.lanes],
        [client.lane for client in made.clients],
    )


def test_one_client_after_the_other() -> None:
    made = one_by_one(ONE_BY_ONE)
    first, second = made.clients
    assert astuple(first) == (0, 3, 5, 1080, 1090, 15, 30, 1050, 0)
    # The same descriptor again, for another client.
    assert astuple(second) == (1, 4, 6, 2180, 2190, 1110, 1125, 2150, 0)
    (lane,) = made.lanes
    assert (lane.name, lane.worker) == ("main", 0)
    spans = shown(lane.spans)
    assert spans[:9] == [
        "wait 0-10", "work 10-12", "accept 12-15 for 0", "work 15-20 for 0",
        "work 20-22 for 0", "work 22-25 for 0", "read 25-30 for 0",
        "work 30-40 for 0", "wait 40-1040 for 0",
    ]
    # A look for the client's end waits for it; after close, for nobody.
    # To receive nothing is work.
    assert {
        "wait 1075-1085 for 0", "work 1086-1087 for 0", "work 1095-1100",
        "wait 1100-1102", "wait 1130-2130 for 1", "write 2150-2170 for 1",
    } <= set(spans)
    assert lane.spans[-1].end == 2190  # the last client's end
    # Neither the call that began before nor those after the last client.
    assert sum(made.calls_by_name.values()) == 13
    assert made.calls_by_name["recvfrom"] == 3
    assert (made.calls[0], made.calls[-1]) == ((12, 1), (2150, 13))


def test_what_is_not_the_request_or_its_response() -> None:
    # Bytes behind the request; the page behind its head; a file that has
    # a descriptor which was a client's.
    made = one_by_one(ONE_BY_ONE + """
        7 1088 1 recv 4
        7 1072 2 send 4
        7 1096 2 recv 4
        """)
    assert (made.clients[0].read, made.clients[0].answered) == (30, 1050)
    reads = [s for s in made.lanes[0].spans if s.kind == "read"]
    assert [span.begin for span in reads] == [25, 1088, 1120]


def test_many_calls_are_counted_in_few_points() -> None:
    many = "".join(f"7 {200 + n} 0 other\n" for n in range(700))
    made = one_by_one(without(ONE_BY_ONE, 40) + many)
    assert len(made.calls) <= MOST_COUNTS
    assert made.calls[-1][1] == sum(made.calls_by_name.values()) == 712


def test_a_thread_for_each_connection() -> None:
    made = built(
        [moments(40001, 1060, 1070), moments(40002, 1310, 1320)], {7: 7}, """
        7 -90 100 poll 3
        7 11 1 accept 4 40001
        7 15 20 clone 8
        8 40 2 recv 4
        8 45 1000 sleep
        7 50 1 accept 5 40002
        7 55 20 clone 9
        9 80 2 recv 5
        9 85 200 lock  # for the interpreter: not for a client
        9 290 1000 sleep
        7 95 5000 poll 3
        8 1050 5 send 4
        8 1060 5 close 4
        9 1300 5 send 5
        9 1310 5 close 5
        """)
    assert lanes(made) == (["main", "thread 1", "thread 2"], [1, 2])
    main, first, second = (shown(lane.spans) for lane in made.lanes)
    assert main[-1] == "wait 95-1320"
    assert first[0] == "read 40-42 for 0" and "wait 45-1045 for 0" in first
    assert {"wait 85-285", "wait 290-1290 for 1"} <= set(second)


@pytest.mark.parametrize("ending", ["timeout", "lock"])
def test_a_timers_thread_waits_for_the_request_it_was_started_for(
    ending: str,
) -> None:
    """A lock that is given ends the same wait, but is no timer."""
    made = built(
        [moments(40001, 1075, 1080), moments(40002, 1085, 1090)], {7: 7}, f"""
        7 -90 100 look
        7 11 1 accept 8 40001
        7 13 1 accept 9 40002
        7 15 2 look
        7 20 1 recv 9  # the second first
        7 22 5 clone 70
        7 28 10 lock
        70 30 2 lock
        7 40 1 recv 8
        7 42 5 clone 71
        71 50 990 {ending}  # the younger thread begins to wait
        70 60 1000 {ending}
        7 60 1000 look
        71 1050 1 bell
        70 1065 1 bell
        7 1070 2 send 8
        7 1080 2 send 9
        7 1090 2 close 8
        7 1095 2 close 9
        """)
    if ending == "lock":
        assert lanes(made) == (["main", "thread 1", "thread 2"], [0, 0])
        return
    assert lanes(made) == (["main", "timer 1", "timer 2"], [2, 1])
    main, first, second = (shown(lane.spans) for lane in made.lanes)
    assert "wait 60-1060 for 1" in first
    # To ring is work for the same request, not a response to it.
    assert {"wait 50-1040 for 0", "work 1050-1051 for 0"} <= set(second)
    assert not any(
        span.startswith("wait") and "for" in span for span in main
    )


EXECUTOR = """
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
    70 1060 1000 sleep
    7 30 1040 look
    7 1080 1 send 10
    7 1082 1 send 8
    7 1084 1000 look
    7 2090 1 send 9
    70 2070 5000 lock
    71 1070 5000 lock
    7 2108 1 close 8
    7 2109 1 close 9
    7 2110 1 close 10
"""
THREE = [
    moments(40001, 1090, 1095), moments(40002, 2095, 2099),
    moments(40003, 1085, 1086),
]  # fmt: skip


def executor(script: str) -> Timeline:
    return built(THREE, {7: 7, 70: 7, 71: 7}, script)


def test_an_executor_takes_requests_in_their_order() -> None:
    made = executor(EXECUTOR)
    assert [client.lane for client in made.clients] == [2, 1, 1]
    _, first, second = (shown(lane.spans) for lane in made.lanes)
    assert {"wait 55-1055 for 2", "wait 1060-2060 for 1"} <= set(first)
    assert "wait 66-1066 for 0" in second
    assert (first[0], second[-1]) == ("wait 0-50", "wait 1070-2099")
    # Those in its queue are in service too.
    assert most_at_once((c.read, c.answered) for c in made.clients) == 3


def test_sleeps_that_fit_no_request() -> None:
    with pytest.raises(TimelineError, match="2 sleeps for 3 requests"):
        executor(without(EXECUTOR, 1060))
    with pytest.raises(TimelineError, match="could not be told"):
        executor(without(EXECUTOR, 1060, 2070) + "70 1060 1100 sleep")
    # A short one is for no request.
    made = executor(EXECUTOR + "71 1071 300 sleep")
    assert "wait 1071-1371" in shown(made.lanes[2].spans)


def rings(owners: dict[int, int]) -> Timeline:
    """Two workers; the second serves nobody for a while."""
    return built(
        [
            moments(40001, 1056, 1095),
            moments(40002, 1075, 1090, begun=6),
            moments(40003, 1070, 1080),
        ], {7: 7, 70: 70, 71: 71}, """
        7 5 5000 sleep  # the parent
        70 -50 70 ring 1
        71 -50 73 ring 1
        70 30 4 ring 1  # hands over one receive
        70 40 6 ring 2  # one timer and one receive
        70 50 992 ring 1  # the other timer
        71 30 5 ring 1
        71 45 1010 ring 1
        70 1050 10 ring 2  # one answer and a close
        70 1065 20 ring 2  # the other
        71 1060 20 ring 2
        """, owners)


def test_rings_tell_the_moments_by_their_calls() -> None:
    made = rings({40001: 70, 40002: 70, 40003: 71})
    # One operation handed over: one connection had come, not two.
    assert [(c.accepted, c.read, c.answered) for c in made.clients] == [
        (20, 34, 1050), (34, 46, 1065), (23, 35, 1060),
    ]
    # None for the parent.
    assert lanes(made) == (["worker 1", "worker 2"], [0, 0, 1])
    for number, lane in enumerate(made.lanes):
        assert lane.worker == number
        assert {span.kind for span in lane.spans} == {"wait", "work"}
        assert {span.client for span in lane.spans} == {NOBODY}
    # But what the parent does counts.
    assert made.calls_by_name == {"io_uring_enter": 8, "clock_nanosleep": 1}
    with pytest.raises(TimelineError, match="not seen to be accepted"):
        rings({40001: 70, 40002: 70})


def test_threads_of_two_workers() -> None:
    made = built(
        [moments(40001, 30, 40), moments(40002, 30, 40)],
        {7: 7, 8: 8, 81: 8}, """
        8 10 1 accept 4 40002
        81 12 1 recv 4
        7 14 1 accept 4 40001  # the same number, elsewhere
        7 16 1 recv 4
        81 20 1 send 4
        7 25 1 send 4
        """)
    names = ["worker 1", "worker 2", "worker 2, thread 1"]
    assert lanes(made) == (names, [0, 2])
    assert [lane.worker for lane in made.lanes] == [0, 1, 1]


def test_a_descriptor_that_is_closed_and_taken_at_the_same_time() -> None:
    """An accept begun before a close can give back what that closed."""
    made = built(
        [moments(40001, 40, 50), moments(40002, 130, 140)], {7: 7, 8: 7}, """
        7 10 1 accept 4 40001
        8 20 1 recv 4
        7 22 78 accept 4 40002
        8 30 1 send 4
        8 90 1 close 4
        8 110 1 recv 4
        8 120 1 send 4
        """)
    assert [c.answered for c in made.clients] == [30, 120]


def test_calls_and_clients_that_do_not_fit() -> None:
    for missing, what in (
        (1105, "accepted"), (1120, "read"), (2150, "answered"),
    ):
        with pytest.raises(TimelineError, match=f"not seen to be {what}"):
            one_by_one(without(ONE_BY_ONE, missing))
    for wrong in (
        {"sent": 1126},  # it was received before
        {"first_byte": 2149},  # answered too late
        {"connected": 7},  # later than sent
        {"begun": 1111, "connected": 1112, "sent": 1113},  # accepted too soon
    ):
        moved = {name: START + at for name, at in wrong.items()}
        seen = [TWO[0], replace(TWO[1], **moved)]
        with pytest.raises(TimelineError, match="clocks"):
            built(seen, {7: 7}, ONE_BY_ONE)


# Fewer spans -------------------------------------------------------------

SPANS = (
    Span("wait", 0, 100),
    Span("work", 100, 103),
    Span("accept", 103, 105, 0),
    Span("work", 105, 107, 0),
    Span("work", 107, 108, 0),
    Span("wait", 108, 112),  # for Python's lock
    Span("work", 112, 115, 0),
    Span("work", 115, 119, 1),
    Span("work", 119, 120),
    Span("wait", 120, 200, 1),
    Span("wait", 200, 260, 2),
)


def test_what_is_tiny_is_merged() -> None:
    assert shown(simplify(SPANS, 10)) == [
        "wait 0-100", "work 100-103", "accept 103-105 for 0",
        "work 105-115 for 0", "work 115-120 for 1", "wait 120-200 for 1",
        "wait 200-260 for 2",
    ]
    assert "wait 108-112" in shown(simplify(SPANS, 4))  # it is not tiny
    assert "work 105-108 for 0" in shown(simplify(SPANS, 0))
    spans = (Span("work", 0, 5, 1), Span("work", 6, 9, 1))
    assert simplify(spans, 100) == spans  # there is a gap
