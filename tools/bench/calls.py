"""System calls out of the files of ``strace -ff -ttt -T -o calls``.

One file a thread, ``calls.101``, one line a call, with the time in seconds
at which it began:

    17.000010 accept4(3, {...}, [16], SOCK_CLOEXEC) = 6 <0.000080>

What strace had to interrupt when it took hold of a thread goes on as
``restart_syscall``; a call under way when it let go has no end.
"""

import re
from dataclasses import dataclass, replace
from pathlib import Path

LINE = re.compile(r"(\d+)\.(\d{6}) (\w+)\((.*)", re.DOTALL)
ENDED = re.compile(
    r"(?P<arguments>.*)\) +="
    r" (?P<result>0x[0-9a-f]+|-?\d+|\?)"
    r"(?: (?P<error>E[A-Z0-9_]+))?"
    r".*?(?: <(?P<seconds>\d+\.\d+)>)?"
)
UNENDED = re.compile(r"(.*) <\w+ \.\.\.>")  # unfinished, or detached
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
WAITING = {  # the kernel can put the thread to sleep in it
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
    def starts_thread(self) -> int | None:
        """The thread it has started, None if it starts none."""
        started = self.name in CLONE and (self.result or 0) > 0
        return self.result if started else None


def read(folder: Path) -> list[Call]:
    """The calls of all threads, in the order in which they began."""
    found: list[Call] = []
    for file in folder.glob("calls.*"):
        text = file.read_text(errors="replace")
        found += parse(text, thread=int(file.suffix[1:]))
    return sorted(found, key=lambda call: call.begin)


def parse(text: str, thread: int) -> list[Call]:
    """The calls of one thread, in the order in which they began.

    They do not overlap: the clock of a call's end is rounded, and may be
    1 µs late. Lines about signals and exits, and the last line if it was
    cut off, are no calls.
    """
    calls: list[Call] = []
    for line in text.splitlines():
        found = LINE.fullmatch(line)
        if not found:
            continue
        begin = int(found[1]) * 1_000_000 + int(found[2])
        if calls and (calls[-1].end is None or calls[-1].end > begin):
            calls[-1] = replace(calls[-1], end=begin)
        if ended := ENDED.fullmatch(found[4]):
            took = round(float(ended["seconds"] or 0) * 1_000_000)
            result = ended["result"]
            calls.append(Call(
                thread, begin, found[3], ended["arguments"], begin + took,
                None if result == "?" else int(result, 0),
                ended["error"] or "",
            ))
        elif unended := UNENDED.fullmatch(found[4]):
            calls.append(Call(thread, begin, found[3], unended[1]))
    return calls
