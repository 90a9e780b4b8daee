"""The modules that a server imports, over the simulated kernel.

Each simulated process has its own. What stands on them in the standard
library (http.server, asyncio, queue, thread pools) is imported anew, so it
is the real code over our sockets, our selector, our threads and our clock.
"""

# ruff: noqa: D102 (what the standard library has documented)
from __future__ import annotations

import collections
import importlib
import itertools
import os
import selectors
import signal
import socket
import time
import types
from collections.abc import Callable
from typing import Any

from tools.steps import sockets
from tools.steps.kernel import Exit, Kernel, Thread
from tools.steps.sockets import Table

EPOCH = 1_700_000_000.0  # what time.time says when the run begins
CORES = 2
FIRST_PID = 1000


class Lock:
    """`threading.Lock`, and with again=True `threading.RLock`."""

    def __init__(self, kernel: Kernel, again: bool = False) -> None:
        self.kernel, self.again = kernel, again
        self.owner: Thread | None = None
        self.depth = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = self.kernel.current
        if not (self.again and self.owner is me):
            until = self.kernel.now + timeout if timeout >= 0 else None
            if not blocking:
                until = self.kernel.now
            free = lambda: self.owner is None  # noqa: E731
            if not self.kernel.wait(["lock"], free, until):
                return False
        self.owner, self.depth = me, self.depth + 1
        return True

    def release(self) -> None:
        if not self.depth:
            raise RuntimeError("release unlocked lock")
        self.depth -= 1
        if not self.depth:
            self.owner = None

    def _at_fork_reinit(self) -> None:
        """Thread pools hand this to os.register_at_fork."""

    def locked(self) -> bool:
        return self.owner is not None

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *error: object) -> None:
        self.release()


class Condition:
    """`threading.Condition`, `Event` and `Semaphore` stand on it."""

    def __init__(self, kernel: Kernel, lock: Lock | None = None) -> None:
        self.kernel, self.lock = kernel, lock or Lock(kernel, again=True)
        self.acquire, self.release = self.lock.acquire, self.lock.release
        self.waiting: collections.deque[list[bool]] = collections.deque()

    def wait(self, timeout: float | None = None) -> bool:
        mine = [False]
        self.waiting.append(mine)
        depth = self.lock.depth
        self.lock.depth, self.lock.owner = 0, None
        until = None if timeout is None else self.kernel.now + timeout
        found = self.kernel.wait(["wait"], lambda: mine[0], until)
        self.lock.acquire()
        self.lock.depth = depth
        return found

    def wait_for(
        self, true: Callable[[], bool], timeout: float | None = None
    ) -> bool:
        until = None if timeout is None else self.kernel.now + timeout
        while not true():
            left = None if until is None else until - self.kernel.now
            if left is not None and left <= 0:
                return False
            self.wait(left)
        return True

    def notify(self, number: int = 1) -> None:
        for _ in range(min(number, len(self.waiting))):
            self.waiting.popleft()[0] = True

    def notify_all(self) -> None:
        self.notify(len(self.waiting))

    def __enter__(self) -> bool:
        return self.lock.acquire()

    def __exit__(self, *error: object) -> None:
        self.lock.release()


def threading_module(kernel: Kernel) -> types.ModuleType:
    """`threading`, as far as servers use it."""
    module = types.ModuleType("threading")
    known: dict[int, Any] = {}

    class Started:
        """`threading.Thread`."""

        def __init__(
            self, group: None = None, target: Any = None, name: str = "",
            args: Any = (), kwargs: Any = None, *, daemon: Any = None,
        ) -> None:
            self.target, self.args = target, args
            self.kwargs, self.daemon = kwargs or {}, daemon
            self.name = name
            self.thread: Thread | None = None

        def start(self) -> None:
            number = sum(each is not None for each in known) + 1
            self.name = self.name or f"thread {number}"
            kernel.note("call", "start", self.name)
            self.thread = kernel.start(self.run, self.name)
            known[self.thread.number] = self

        def run(self) -> None:
            if self.target:
                self.target(*self.args, **self.kwargs)

        def is_alive(self) -> bool:
            return self.thread is not None and not self.thread.ended

        def join(self, timeout: float | None = None) -> None:
            until = None if timeout is None else kernel.now + timeout
            kernel.wait(["join"], lambda: not self.is_alive(), until)

        ident = property(lambda self: self.thread and self.thread.number)

    class Timer(Started):
        """`threading.Timer`."""

        def __init__(
            self, interval: float, function: Any, args: Any = (),
            kwargs: Any = None,
        ) -> None:
            super().__init__(None, function, "", args, kwargs)
            self.interval, self.finished = interval, Event()

        def cancel(self) -> None:
            self.finished.set()

        def run(self) -> None:
            if not self.finished.wait(self.interval):
                super().run()
            self.finished.set()

    class Event:
        """`threading.Event`."""

        def __init__(self) -> None:
            self.flag = False

        def is_set(self) -> bool:
            return self.flag

        def set(self) -> None:
            self.flag = True

        def clear(self) -> None:
            self.flag = False

        def wait(self, timeout: float | None = None) -> bool:
            until = None if timeout is None else kernel.now + timeout
            return kernel.wait(["wait"], lambda: self.flag, until)

    class Semaphore:
        """`threading.Semaphore`."""

        def __init__(self, value: int = 1) -> None:
            self.value = value

        def acquire(
            self, blocking: bool = True, timeout: float | None = None
        ) -> bool:
            until = None if timeout is None else kernel.now + timeout
            if not blocking:
                until = kernel.now
            if not kernel.wait(["wait"], lambda: self.value > 0, until):
                return False
            self.value -= 1
            return True

        def release(self, n: int = 1) -> None:
            self.value += n

        def __enter__(self) -> bool:
            return self.acquire()

        def __exit__(self, *error: object) -> None:
            self.release()

    main = Started(name="MainThread")

    def current() -> Any:
        number = kernel.current.number if kernel.current else -1
        return known.get(number, main)

    def running() -> list[Any]:
        return [main, *(each for each in known.values() if each.is_alive())]

    for name, value in {
        "Thread": Started, "Timer": Timer, "Event": Event,
        "Semaphore": Semaphore, "BoundedSemaphore": Semaphore,
        "Lock": lambda: Lock(kernel),
        "RLock": lambda: Lock(kernel, again=True),
        "Condition": lambda lock=None: Condition(kernel, lock),
        "current_thread": current, "main_thread": lambda: main,
        "enumerate": running, "active_count": lambda: len(running()),
        "get_ident": lambda: kernel.current and kernel.current.number,
        "_register_atexit": lambda *words: None, "_shutdown_locks": set(),
        "local": types.SimpleNamespace,
    }.items():
        setattr(module, name, value)
    return module


def like(real: types.ModuleType, **ours: Any) -> types.ModuleType:
    """A copy of a module with some names replaced."""
    module = types.ModuleType(real.__name__)
    module.__dict__.update(real.__dict__)
    module.__dict__.update(ours)
    return module


def uring_module(table: Table) -> types.ModuleType:
    """`uring`: completions, made by the engine that step 07 has beside it.

    What an operation does is the same; here the kernel completes it.
    """
    emulated: Any = importlib.import_module("emulated")  # the folder's

    kernel = table.kernel

    class Engine(emulated.Engine):  # type: ignore
        """Notes what is submitted, and what is completed."""

        name = "uring"

        def __init__(self) -> None:
            super().__init__()
            self.selector.call, self.selector.quiet = "io_uring_enter", True

        def wait(self, block: bool = True) -> list[Any]:
            done: list[Any] = super().wait(block)
            for kind, fd, result, _, _ in done:
                kernel.note("complete", NAMES[kind], fd, result)
            return done

    NAMES = {
        emulated.ACCEPTED: "accept", emulated.RECEIVED: "receive",
        emulated.SENT: "send", emulated.SLEPT: "sleep",
    }

    def noted(name: str) -> Callable[..., None]:
        def operation(self: Any, fd: int, *rest: Any) -> None:
            kernel.note("submit", name, fd)
            getattr(super(Engine, self), name)(fd, *rest)

        return operation

    for name in ("accept", "receive", "send", "sleep", "close"):
        setattr(Engine, name, noted(name))
    module = types.ModuleType("uring")
    module.Engine = Engine  # type: ignore
    module.open_ring = lambda: None  # type: ignore
    module.Unavailable = type("Unavailable", (Exception,), {})  # type: ignore
    return module


def modules_for(
    kernel: Kernel, table: Table, fork: Callable[[], int]
) -> dict[str, types.ModuleType | None]:
    """What `import` finds in a simulated process."""
    ours: Any = type("socket", (sockets.Socket,), {"table": table})
    chooser = type("Selector", (sockets.Selector,), {"table": table})

    def pair(*words: Any) -> Any:
        one, other = sockets.Pipe(), sockets.Pipe()
        return ours.between(one, other), ours.between(other, one)

    def create_server(address: Any, **options: Any) -> Any:
        listener = ours()
        listener.listen()
        return listener

    def sleep(seconds: float) -> None:
        kernel.wait(
            ["sleep", seconds], lambda: False, kernel.now + seconds
        )

    looks = itertools.count(1)

    def now() -> float:  # a little later each time, as a real clock
        return kernel.now + next(looks) * 1e-9

    def leave(status: int) -> None:
        raise Exit

    def waitpid(pid: int, options: int) -> tuple[int, int]:
        def over() -> bool:
            return pid - FIRST_PID not in {
                each.process for each in kernel.threads
            }

        until = kernel.now if options else None  # WNOHANG
        return (pid, 0) if kernel.wait(["waitpid"], over, until) else (0, 0)

    def wait() -> tuple[int, int]:
        def ended() -> set[int]:
            alive = {each.process for each in kernel.threads}
            return kernel.children.get(table.process, set()) - alive

        kernel.wait(["waitpid"], lambda: bool(ended()))
        child = min(ended())
        kernel.children[table.process].discard(child)
        return FIRST_PID + child, 0

    def forbidden(name: str) -> Callable[..., Any]:
        def refuse(*words: Any, **options: Any) -> Any:
            raise kernel.stop(f"it calls {name}, which is not simulated")

        return refuse

    simulated = dict.fromkeys(("_queue", "ssl", "_ssl"))
    choosers = dict.fromkeys((
        "DefaultSelector", "SelectSelector", "PollSelector",
        "EpollSelector", "KqueueSelector",
    ), chooser)
    return {
        **simulated,
        "socket": like(
            socket, socket=ours, SocketType=ours, create_server=create_server,
            socketpair=pair, create_connection=forbidden("connect"),
            getaddrinfo=forbidden("getaddrinfo"), getfqdn=lambda name="": name,
            gethostname=lambda: "localhost",
        ),
        "selectors": like(selectors, **choosers),
        "time": like(
            time, sleep=sleep, monotonic=now, perf_counter=now,
            time=lambda: EPOCH + kernel.now,
        ),
        "threading": threading_module(kernel),
        "signal": like(
            signal, signal=lambda number, action: signal.SIG_DFL,
            set_wakeup_fd=lambda *words, **options: -1,
            setitimer=lambda *words: (0.0, 0.0),
        ),
        "os": like(
            os, fork=fork, cpu_count=lambda: CORES,
            getpid=lambda: FIRST_PID + table.process,
            waitpid=waitpid, wait=wait, _exit=leave,
            kill=forbidden("os.kill"), system=forbidden("os.system"),
        ),
    }


# Imported anew for each process: they stand on the modules above.
ANEW = (
    "socketserver", "http.server", "queue", "asyncio",
    "concurrent.futures",
)


def belongs(name: str) -> bool:
    """Does each process have this module for itself?"""
    return any(name == each or name.startswith(f"{each}.") for each in ANEW)
