"""System calls out of the text of ``strace -f -ttt -T``.

A line begins with the thread, and the time in seconds:

    101 17.000010 accept4(3,  <unfinished ...>
    102 17.000020 recvfrom(5, "G"..., 60, 0, NULL, NULL) = 60 <0.000009>
    101 17.000090 <... accept4 resumed>{...}, [16], 0) = 6 <0.000080>

A call is in one line, or in two if another thread did something in
between. What strace had to interrupt when it took hold of a thread goes
on as ``restart_syscall``.
"""

import re
from dataclasses import dataclass, replace

LINE = re.compile(r"(\d+) +(\d+)\.(\d{6}) (.*)")
BEGUN = re.compile(r"(\w+)\((.*)", re.DOTALL)
RESUMED = re.compile(r"<\.\.\. (\w+) resumed>(.*)", re.DOTALL)
UNFINISHED, DETACHED = " <unfinished ...>", " <detached ...>"
ENDED = re.compile(
    r"(?P<arguments>.*)\) +="
    r" (?P<result>0x[0-9a-f]+|-?\d+|\?)"
    r"(?: (?P<error>E[A-Z0-9_]+))?"
    r".*?(?: <(?P<seconds>\d+\.\d+)>)?"
)
PORT = re.compile(r"sin6?_port=htons\((\d+)\)")
ACCEPT = ("accept", "accept4")
CLONE = ("clone", "clone3")
RECEIVE = ("recvfrom", "recvmsg", "read", "readv")
SEND = ("sendto", "sendmsg", "write", "writev", "sendfile")
# Where the descriptor stands, if it is not the first argument.
NO_DESCRIPTOR = ("futex", "io_uring_enter", "exit", "clone3")
DESCRIPTOR = {
    "poll": r"\[\{fd=(\d+), events=",
    "ppoll": r"\[\{fd=(\d+), events=",
    "epoll_ctl": r"\d+, \w+, (\d+)",
}
WAITING = {
    "clock_nanosleep", "nanosleep", "poll", "ppoll", "select", "pselect6",
    "epoll_wait", "epoll_pwait", "epoll_pwait2", "futex", "io_uring_enter",
    "restart_syscall", "wait4", "waitid", "rt_sigtimedwait", "pause",
    "accept", "accept4", "recvfrom", "recvmsg", "read",
}  # fmt: skip


@dataclass(frozen=True)
class Call:
    """One system call of one thread.

    begin, end: µs since the epoch; end is None if it was still under way
    when strace let go. result: None if it is not known; error: its name,
    such as EAGAIN, or "".
    """

    thread: int
    begin: int
    name: str
    arguments: str = ""
    end: int | None = None
    result: int | None = None
    error: str = ""

    @property
    def fd(self) -> int | None:
        """The descriptor it is about, if it is about one."""
        if self.name in NO_DESCRIPTOR:
            return None
        pattern = DESCRIPTOR.get(self.name, r"(\d+)(?:, |$)")
        found = re.match(pattern, self.arguments)
        return int(found[1]) if found else None

    @property
    def port(self) -> int | None:
        """The other side's port, in what accept gives back."""
        found = PORT.search(self.arguments)
        return int(found[1]) if found else None

    @property
    def accepts(self) -> bool:
        """Has it taken a connection? Its result is the descriptor."""
        return self.name in ACCEPT and (self.result or 0) > 0

    @property
    def receives(self) -> bool:
        """Has it received bytes?"""
        return self.name in RECEIVE and (self.result or 0) > 0

    @property
    def sends(self) -> bool:
        """Has it sent bytes, or may it still be doing so?"""
        return self.name in SEND and (self.result is None or self.result > 0)

    @property
    def may_wait(self) -> bool:
        """Can the kernel put the thread to sleep in it?"""
        return self.name in WAITING

    @property
    def starts_thread(self) -> int | None:
        """The thread it has started, None if it starts none."""
        started = self.name in CLONE and (self.result or 0) > 0
        return self.result if started else None

    @property
    def submitted(self) -> int:
        """How many operations an io_uring_enter hands to the kernel."""
        found = re.match(r"\d+, (\d+), ", self.arguments)
        return int(found[1]) if found else 0


def parse(text: str) -> list[Call]:
    """All calls, in the order in which they began.

    Calls of one thread do not overlap: the clock of a call's end is
    rounded, and may be 1 µs late. Lines about signals and exits, and the
    last line if it was cut off, are no calls.
    """
    calls: list[Call] = []
    open_calls: dict[int, int] = {}  # thread -> place in calls
    for line in text.splitlines():
        found = LINE.fullmatch(line)
        if not found:
            continue
        thread = int(found[1])
        time = int(found[2]) * 1_000_000 + int(found[3])
        resumed = RESUMED.fullmatch(found[4])
        if resumed:
            place = open_calls.pop(thread, None)
            if place is not None and calls[place].name == resumed[1]:
                calls[place] = _finish(calls[place], resumed[2], time)
            continue
        begun = BEGUN.fullmatch(found[4])
        if not begun:
            continue  # --- a signal ---, or +++ an exit +++
        call = Call(thread, time, begun[1])
        arguments = begun[2].removesuffix(UNFINISHED).removesuffix(DETACHED)
        if arguments != begun[2]:
            open_calls[thread] = len(calls)
            calls.append(replace(call, arguments=arguments))
        elif (finished := _finish(call, begun[2], None)).end is not None:
            calls.append(finished)
    calls.sort(key=lambda call: call.begin)
    return _in_line(calls)


def _finish(call: Call, text: str, resumed: int | None) -> Call:
    """A call with its end, from what stands behind its begin.

    resumed: when the line that tells of the end was written, if that is
    not the line of the begin.
    """
    ended = ENDED.fullmatch(text)
    if not ended:  # the line was cut off
        return call
    end = call.begin if resumed is None else resumed
    if ended["seconds"]:
        end = call.begin + round(float(ended["seconds"]) * 1_000_000)
    result = ended["result"]
    return replace(
        call,
        arguments=call.arguments + ended["arguments"],
        end=end,
        result=None if result == "?" else int(result, 0),
        error=ended["error"] or "",
    )


def _in_line(calls: list[Call]) -> list[Call]:
    """The calls, each ended when the next of its thread begins."""
    found = []
    following: dict[int, int] = {}  # thread -> begin of its next call
    for call in reversed(calls):
        limit = following.get(call.thread)
        if limit is not None and (call.end is None or call.end > limit):
            call = replace(call, end=limit)
        following[call.thread] = call.begin
        found.append(call)
    return found[::-1]
