"""A kernel in one process: a virtual clock, threads, and a trace.

One thread runs until it blocks, and the clock stands still meanwhile. When
all are blocked, time jumps to the next event. So the same file and the same
clients give the same trace, to the byte.

What it leaves out: CPU time, the network, and the choices of a scheduler.
"""

from __future__ import annotations

import heapq
import math
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

MOST_STEPS = 20_000  # entries of a trace
MOST_SECONDS = 600.0  # of the virtual clock
Tracer = Callable[[Any, str, Any], Any]


class Stopped(BaseException):
    """The run cannot go on; the text says why, in a sentence."""


class Exit(BaseException):
    """The process ends itself (os._exit)."""


class Thread:
    """A simulated thread, in a simulated process."""

    def __init__(self, number: int, process: int, name: str) -> None:
        self.number, self.process, self.name = number, process, name
        self.line = 0  # that it runs, of the file shown
        self.blocked, self.since = "", 0.0  # in which call, since when
        self.run: Callable[[], None] = lambda: None
        self.turn = threading.Lock()  # held until it may run
        self.turn.acquire()
        self.ready: Callable[[], bool] | None = None  # what it waits for
        self.until: float | None = None  # when it gives up
        self.ended = False
        self.silent = False  # nothing that it does is noted
        self.lines = 0  # since it was last switched to


class Kernel:
    """Everything that is simulated, and what has happened.

    interval: lines after which a thread has to let another one run, as the
    GIL makes it; 0: it runs until it blocks.
    """

    def __init__(
        self, tracer: Tracer | None = None, interval: int = 0,
        last_step: int = MOST_STEPS + 1,
    ) -> None:
        self.now = 0.0
        self.last_step = last_step  # the run ends with it
        self.tracer, self.interval = tracer, interval
        self.threads: list[Thread] = []
        self.children: dict[int, set[int]] = {}  # of each process
        self.trace: list[list[Any]] = []
        self.current: Thread | None = None
        self.failure: BaseException | None = None
        # Called before a thread's turn, and when one blocks.
        self.entering: Callable[[Thread], None] = lambda thread: None
        self.looking: Callable[[], None] = lambda: None
        self.closing: Callable[[], None] = lambda: None  # at the last step
        # Called once, when all threads are blocked for the first time.
        self.opening: Callable[[], None] = lambda: None
        self._runnable: deque[Thread] = deque()
        self._events: list[tuple[float, int, Callable[[], None]]] = []
        self._scheduled = 0
        self._hub = threading.Lock()  # held while a thread runs
        self._hub.acquire()
        self._numbers = 0

    # What happened.

    def note(self, kind: str, *details: Any) -> None:
        """Write down a step of the current thread (-1: the kernel's own).

        Raises Stopped if there are too many.
        """
        if self.current and self.current.silent:
            return
        if len(self.trace) >= MOST_STEPS:
            where = f" in line {self.current.line}" if self.current else ""
            raise self.stop(
                f"it was still running{where} after {MOST_STEPS:,} steps: "
                "does a loop never end, or never wait?"
            )
        number = self.current.number if self.current else -1
        self.trace.append([kind, round(self.now, 6), number, *details])
        if len(self.trace) == self.last_step:
            self.closing()
            raise self.stop("this is the moment")

    def stop(self, why: str) -> Stopped:
        """To be raised: the run ends, even if the file catches it."""
        if self.failure is None:
            self.failure = Stopped(why)
        return Stopped(why)

    # Time.

    def at(self, moment: float, action: Callable[[], None]) -> None:
        """Let something happen at this moment."""
        self._scheduled += 1
        heapq.heappush(
            self._events,
            (round(max(moment, self.now), 9), self._scheduled, action),
        )

    # Threads.

    def start(
        self, run: Callable[[], None], name: str, process: int | None = None
    ) -> Thread:
        """A new thread, which runs when the others let it."""
        if process is None:
            process = self.current.process if self.current else 0
        thread = Thread(self._numbers, process, name)
        self._numbers += 1
        thread.run = run
        threading.Thread(
            target=self._whole, args=[thread], daemon=True
        ).start()
        self.threads.append(thread)
        self._runnable.append(thread)
        self.note("start", thread.number, thread.process, name)
        return thread

    def _whole(self, thread: Thread) -> None:
        """All that a thread does."""
        thread.turn.acquire()
        sys.settrace(self.tracer)
        try:
            thread.run()
        except Exit:
            pass
        except BaseException as error:  # it ends the run, as a crash would
            if self.failure is None and self.ends_the_run(thread, error):
                self.failure = error
        finally:
            sys.settrace(None)
            thread.ended = True
            self.threads.remove(thread)
            if self.failure is None:
                self.note("end")
            self._hub.release()

    def ends_the_run(self, thread: Thread, error: BaseException) -> bool:
        """Does this exception stop more than its own thread?"""
        if isinstance(error, Stopped) or thread.name == "main":
            return True
        self.note("crash", f"{type(error).__name__}: {error}", thread.line)
        return False

    def wait(
        self, what: list[Any], ready: Callable[[], bool],
        until: float | None = None,
    ) -> bool:
        """Block the current thread until it is ready, or until a moment.

        what: the call, for the trace. Returns whether it is ready.
        """
        if self.current and self.current.silent:
            raise self.stop(
                "it forks after a wait, which is not simulated: try "
                "--workers 1"
            )
        self._meanwhile()
        if ready():
            return True
        if until is not None and (until := round(until, 9)) <= self.now:
            return False
        thread = self.current
        assert thread, "only a thread can wait"
        self.looking()
        thread.blocked, thread.since = what[0], round(self.now, 6)
        self.note("block", *what)
        if until is not None:
            self.at(until, lambda: None)
        # Of several that wait for the same, one may be ready.
        while not ready() and self.now < (until or math.inf):
            thread.ready, thread.until = ready, until
            self._pause(thread)
        thread.blocked = ""
        self.note("wake", *what)
        return ready()

    def let_others_run(self) -> None:
        """The current thread has run long enough (the GIL's interval)."""
        if self._runnable and self.current:
            self._runnable.append(self.current)
            self.note("switch")
            self._pause(self.current)

    def _pause(self, thread: Thread) -> None:
        """Let the kernel go on, until it is this thread's turn again."""
        self._hub.release()
        thread.turn.acquire()

    # The run.

    def run(self, over: Callable[[], bool]) -> None:
        """Run all threads until all are blocked and it is over.

        They stay so for good: the process is to end afterwards. Raises
        Stopped, or what the main thread has raised.
        """
        opened = False
        while True:
            while self._turn() or self._wake_up():
                if self.failure is not None:
                    raise self.failure
            if not opened:
                self.opening()
                opened = True
            if over():
                return
            self._next_event()

    def _turn(self) -> bool:
        """Run the next thread until it blocks; False if there is none."""
        if not self._runnable:
            return False
        thread = self.current = self._runnable.popleft()
        thread.lines = 0
        self.entering(thread)
        thread.turn.release()
        self._hub.acquire()
        self.current = None
        return True

    def _wake_up(self) -> bool:
        """Let those run again whose wait is over."""
        for thread in self.threads:
            if thread.ready and (
                thread.ready() or self.now >= (thread.until or math.inf)
            ):
                thread.ready = thread.until = None
                self._runnable.append(thread)
        return bool(self._runnable)

    def _next_event(self) -> None:
        """Time jumps. Raises Stopped if nothing can happen any more."""
        if not self._events or self._events[0][0] > MOST_SECONDS:
            lines = ", ".join(str(each.line) for each in self.threads)
            raise Stopped(
                "nothing will happen any more, but not all clients have "
                f"ended; it waits in line {lines}" if lines else
                "it ended before its clients did"
            )
        self.now = max(self.now, self._events[0][0])
        self._meanwhile()

    def _meanwhile(self) -> None:
        """What is due happens, whatever the current thread does."""
        thread, self.current = self.current, None
        while self._events and self._events[0][0] <= self.now:
            heapq.heappop(self._events)[2]()
        self.current = thread
