"""tools.bench.calls: what strace writes becomes calls."""

from pathlib import Path

import pytest

from tools.bench.calls import Call, parse, read

START = 1_700_000_000_000_000  # µs: of the times below
WHAT = ("accepts", "receives", "sends")


def line(at: int, text: str) -> str:
    """A line as strace writes it; at: µs after START."""
    seconds, rest = divmod(START + at, 1_000_000)
    return f"{seconds}.{rest:06} {text}\n"


@pytest.mark.parametrize(("text", "fd", "result", "what"), [
    ("accept4(3, {sa_family=AF_INET, sin_port=htons(999), sin_addr=x}, "
     "[16], SOCK_CLOEXEC) = 5 <0.000080>", 3, 5, "accepts 999"),
    ("accept4(3, {sa_family=AF_INET6, sin6_port=htons(999), sin6_addr=x}, "
     "[28], 0) = 6 <0.000001>", 3, 6, "accepts 999"),
    ("accept4(3, 0x7ffe, [16], SOCK_CLOEXEC) = -1 EAGAIN (Resource "
     "temporarily unavailable) <0.000013>", 3, -1, "EAGAIN"),
    ('recvfrom(5, "G"..., 9, 0, NULL, NULL) = 3 <0.000001>', 5, 3,
     "receives"),
    ('recvfrom(5, "", 9, 0, NULL, NULL) = 0 <0.000001>', 5, 0, ""),
    ('sendto(5, "H"..., 172, 0, NULL, 0) = 172 <0.000001>', 5, 172, "sends"),
    ('sendto(5, "H"..., 172, 0, NULL, 0 <unfinished ...>', 5, None, "sends"),
    ('sendto(5, "H"..., 9, 0, NULL, 0) = -1 EAGAIN (No) <0.000001>', 5, -1,
     "EAGAIN"),
    ("clone3({flags=CLONE_VM, stack=0x7f}, 88) = 33 <0.000001>", None, 33,
     "starts 33"),
    ("clone3({flags=0}, 88) = -1 EAGAIN (No) <0.000001>", None, -1,
     "EAGAIN"),
    ("getpid()        = 33 <0.000001>", None, 33, ""),
    ("futex(0x55, FUTEX_WAIT_BITSET_PRIVATE, 0, 0x7f, X) = -1 ETIMEDOUT "
     "(Connection timed out) <0.100102>", None, -1, "ETIMEDOUT"),
    ("poll([{fd=3, events=POLLIN}], 1, 500) = ? ERESTART_RESTARTBLOCK "
     "(Interrupted by signal) <0.000300>", 3, None, "ERESTART_RESTARTBLOCK"),
    ("poll([{fd=5, events=POLLIN}], 1, 500 <detached ...>", 5, None, ""),
    ("exit(0)         = ?", None, None, ""),
    ("mmap(NULL, 16, PROT_READ, MAP_PRIVATE, -1, 0) = 0x7f5ff8eda000 "
     "<0.000012>", None, 0x7F5FF8EDA000, ""),
    ("restart_syscall(<... resuming interrupted read ...>) = 0 <0.493485>",
     None, 0, ""),
    ("close(4)        = 0 <0.000001>", 4, 0, ""),
    ("epoll_ctl(4, EPOLL_CTL_ADD, 17, 0x7ffc) = 0 <0.000001>", 17, 0, ""),
    ("io_uring_enter(3, 9, 1, IORING_ENTER_GETEVENTS, NULL, 0) = 9 "
     "<0.000001>", None, 9, ""),
])
def test_what_a_line_says(
    text: str, fd: int | None, result: int | None, what: str
) -> None:
    (call,) = parse(line(0, text), 1)
    assert (call.name, call.begin) == (text.partition("(")[0], START)
    assert (call.fd, call.result) == (fd, result)
    assert (call.end is None) == text.endswith("...>")
    words = [call.error, *(word for word in WHAT if getattr(call, word))]
    if call.port:
        words.append(f"{call.port}")
    if call.starts_thread is not None:
        words.append(f"starts {call.starts_thread}")
    assert " ".join(filter(None, words)) == what


def test_what_is_no_call_is_passed_over() -> None:
    text = (
        "strace: Process 7 attached\n"
        + line(0, "--- SIGTERM {si_signo=SIGTERM, si_code=SI_USER} ---")
        + line(1, "+++ exited with 0 +++")
        + line(2, "+++ killed by SIGKILL +++")
        + line(3, "<... poll resumed>) = 0 <0.000001>")  # begun before
        + line(4, "getpid()        = 7 <0.000001>")
        + line(5, "sendto(5, ")[:-1]  # cut off
    )
    assert [call.name for call in parse(text, 7)] == ["getpid"]


def test_the_threads_are_read_in_one_order(tmp_path: Path) -> None:
    (tmp_path / "calls.1").write_text(
        line(0, "getpid()        = 1 <0.000011>")  # rounded: it overlaps
        + line(10, "poll([{fd=3, events=POLLIN}], 1, 5 <unfinished ...>")
        + line(17, "getpid()        = 1 <0.000001>")
    )
    (tmp_path / "calls.2").write_text(line(5, "close(9)    = 0 <0.000002>"))
    first, close, second, third = read(tmp_path)
    assert (first.thread, first.begin, first.end) == (1, START, START + 10)
    assert close == Call(2, START + 5, "close", "9", START + 7, 0)
    assert (second.begin, second.end) == (START + 10, START + 17)
    assert third.end == START + 18
