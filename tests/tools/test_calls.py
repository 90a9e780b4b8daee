"""tools.bench.calls: what strace writes becomes calls."""

from pathlib import Path

import pytest

from tools.bench.calls import Call, parse, read

START = 1_700_000_000_000_000  # µs: of the times below


def line(at: int, text: str) -> str:
    """A line as strace writes it; at: µs after START."""
    seconds, rest = divmod(START + at, 1_000_000)
    return f"{seconds}.{rest:06} {text}\n"


def only(text: str) -> Call:
    """The one call of this text."""
    (call,) = parse(line(0, text), 1)
    return call


def test_the_threads_are_read_in_one_order(tmp_path: Path) -> None:
    accept = line(
        0, "accept4(3, {sa_family=AF_INET, sin_port=htons(40000), "
        'sin_addr=inet_addr("127.0.0.1")}, [16], SOCK_CLOEXEC) = 5 '
        "<0.000080>",
    )
    poll = line(9, "poll([{fd=5, events=POLLIN}], 1, 500 <detached ...>")
    (tmp_path / "calls.1").write_text(accept + poll)
    (tmp_path / "calls.2").write_text(line(5, "close(9)    = 0 <0.000002>"))
    first, close, last = read(tmp_path)
    assert (first.thread, first.name, first.result) == (1, "accept4", 5)
    assert (first.begin, first.end) == (START, START + 9)
    assert (first.fd, first.port, first.accepts) == (3, 40000, True)
    assert close == Call(2, START + 5, "close", "9", START + 7, 0)
    assert (last.thread, last.end, last.result, last.fd) == (1, None, None, 5)


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


@pytest.mark.parametrize(("text", "fd", "result", "error"), [
    ("accept4(3, 0x7ffe, [16], SOCK_CLOEXEC) = -1 EAGAIN (Resource "
     "temporarily unavailable) <0.000013>", 3, -1, "EAGAIN"),
    ("futex(0x55, FUTEX_WAIT_BITSET_PRIVATE, 0, 0x7f, X) = -1 ETIMEDOUT "
     "(Connection timed out) <0.100102>", None, -1, "ETIMEDOUT"),
    ("poll([{fd=3, events=POLLIN}], 1, 500) = ? ERESTART_RESTARTBLOCK "
     "(Interrupted by signal) <0.000300>", 3, None, "ERESTART_RESTARTBLOCK"),
    ("exit(0)         = ?", None, None, ""),
    ("mmap(NULL, 16, PROT_READ, MAP_PRIVATE, -1, 0) = 0x7f5ff8eda000 "
     "<0.000012>", None, 0x7F5FF8EDA000, ""),
    ("restart_syscall(<... resuming interrupted read ...>) = 0 <0.493485>",
     None, 0, ""),
    ("close(4)        = 0 <0.000001>", 4, 0, ""),
    ("epoll_ctl(4, EPOLL_CTL_ADD, 17, 0x7ffc) = 0 <0.000001>", 17, 0, ""),
    ("io_uring_enter(3, 9, 1, IORING_ENTER_GETEVENTS, NULL, 0) = 9 "
     "<0.000001>", None, 9, ""),
    ("clone3({flags=CLONE_VM, stack=0x7f}, 88) = 33 <0.000001>", None, 33,
     ""),
])
def test_the_descriptor_and_the_result(
    text: str, fd: int | None, result: int | None, error: str
) -> None:
    call = only(text)
    assert (call.fd, call.result, call.error) == (fd, result, error)
    assert call.end is not None
    assert not (call.accepts or call.receives)


def test_calls_of_a_thread_do_not_overlap() -> None:
    first, second, third = parse(
        line(0, "getpid()        = 1 <0.000011>")  # rounded
        + line(10, "poll([{fd=3, events=POLLIN}], 1, 5 <unfinished ...>")
        + line(17, "getpid()        = 1 <0.000001>"), 1,
    )
    assert (first.end, second.begin) == (START + 10, START + 10)
    assert (second.end, third.begin) == (START + 17, START + 17)
    assert third.end == START + 18


def test_what_calls_do() -> None:
    assert only('sendto(5, "H"..., 172, 0, NULL, 0) = 172').sends
    assert not only('sendto(5, "H"..., 9, 0, NULL, 0) = -1 EAGAIN (No)').sends
    assert only('recvfrom(5, "G"..., 9, 0, NULL, NULL) = 3').receives
    assert not only('recvfrom(5, "", 9, 0, NULL, NULL) = 0').receives
    assert not only("accept4(3, 0x7f, [16], 0) = -1 EAGAIN (No)").accepts
    assert only("clone3({flags=CLONE_VM}, 88) = 33").starts_thread == 33
    assert only("clone3({flags=0}, 88) = -1 EAGAIN (No)").starts_thread is None
    assert only("getpid() = 33").starts_thread is None
    assert only("io_uring_enter(3, 18, 1, 0x1, NULL, 0) = 18").submitted == 18
    ipv6 = "{sa_family=AF_INET6, sin6_port=htons(999), sin6_addr=x}"
    assert only(f"accept4(3, {ipv6}, [28], 0) = 6").port == 999
