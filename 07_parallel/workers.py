"""The parent of the workers: starts, replaces and stops them.

A worker is a process, with an interpreter and so a GIL of its own; or a
thread, where Python runs without a GIL; or, since Python 3.14, an
interpreter in the parent's process, with a GIL of its own. Only a
process can crash alone, and be replaced. Parent and worker are
connected by a pair of sockets: the worker sends STARTED, the parent
LEAVE (health checks fail from now on) and STOP, the worker how much it
has done. If one dies, the other reads the end.
"""

from __future__ import annotations

import errno
import importlib
import os
import pickle
import signal
import socket
import sys
import threading
import traceback
from argparse import Namespace
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import uring
from files import PART
from web import BACKLOG, shutting_down, signals_received, totals

STARTED, LEAVE, STOP = b"started", b"leave", b"stop"
# What a new interpreter runs; it has modules and totals of its own.
IN_INTERPRETER = """
import pickle, socket, sys
sys.path[:] = path
import server, workers
workers.run(server.Worker, socket.socket(fileno=listener),
            socket.socket(fileno=parent), pickle.loads(options))
"""

class Runs(Protocol):
    """What a worker does: run until its parent stops it."""

    def run(self) -> None:
        """Serve."""


# Makes one: from a listener, a line to its parent, and options.
Make = Callable[[socket.socket, socket.socket, Namespace], Runs]


class Handle(NamedTuple):
    """A worker as its parent sees it."""

    line: socket.socket  # connected to it
    listener: socket.socket
    pid: int = 0  # 0: it is in our process


class Workers:
    """All workers of a server, and their listening sockets."""

    def __init__(
        self, listener: socket.socket, options: Namespace, make: Make
    ) -> None:
        """Start them all; they serve from now on."""
        self.options = options
        self.make = make
        if options.worker_kind == "auto":
            options.worker_kind = best_kind()
        try:
            self.listeners = open_listeners(listener, options)
        except OSError as error:
            sys.exit(f"cannot listen: {error.strerror}")
        self.workers: list[Handle] = []
        for each in self.listeners:
            self.workers.append(self.start(each))

    def start(self, listener: socket.socket) -> Handle:
        """Start a worker; return when it is ready.

        One that cannot start would not start the next time either: that
        ends the server, with the reason.
        """
        try:
            ours, theirs = socket.socketpair()
            start = {
                "process": self.start_process,
                "thread": self.start_thread,
                "interpreter": self.start_interpreter,
            }[self.options.worker_kind]
            handle = start(ours, theirs, listener)
            word = ours.recv(1000)
        except OSError as error:
            word = str(error.strerror).encode()
        if word != STARTED:
            reason = word.decode() or "it died at once"
            os.write(2, f"a worker cannot start: {reason}\n".encode())
            os._exit(1)
        return handle

    def start_thread(
        self,
        ours: socket.socket,
        theirs: socket.socket,
        listener: socket.socket,
    ) -> Handle:
        """A worker that shares the interpreter with all others."""
        # It has a descriptor of its own, to close when it stops.
        arguments = self.make, listener.dup(), theirs, self.options
        threading.Thread(
            target=run, args=arguments, daemon=True
        ).start()
        return Handle(ours, listener)

    def start_interpreter(
        self,
        ours: socket.socket,
        theirs: socket.socket,
        listener: socket.socket,
    ) -> Handle:
        """A worker with a GIL of its own, in this process (PEP 734).

        It computes while we do, and starts without a fork. But a thread
        has to run it, and if it crashes, it takes the process with it.
        """
        interpreters = importlib.import_module(
            "concurrent.interpreters"
        )
        try:
            interpreter = interpreters.create()
        except interpreters.InterpreterError as error:
            raise OSError(errno.EAGAIN, str(error)) from error
        # Objects belong to one interpreter: descriptors are numbers.
        interpreter.prepare_main(
            path=tuple(sys.path),
            listener=listener.dup().detach(),
            parent=theirs.dup().detach(),
            options=pickle.dumps(self.options),
        )

        def live() -> None:
            try:
                interpreter.exec(IN_INTERPRETER)
            except Exception as error:  # before it could serve
                theirs.send(str(error).encode())
            theirs.close()

        threading.Thread(target=live, daemon=True).start()
        return Handle(ours, listener)

    def start_process(
        self,
        ours: socket.socket,
        theirs: socket.socket,
        listener: socket.socket,
    ) -> Handle:
        """A worker with an interpreter, and so a GIL, of its own."""
        pid = os.fork()
        if pid:
            theirs.close()
            return Handle(ours, listener, pid)
        try:
            # A signal may go to all of us: the parent says stop.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            # The fork has copied what belongs to the others.
            ours.close()
            for worker in self.workers:
                worker.line.close()
            for each in self.listeners:
                if each is not listener:
                    each.close()
            run(self.make, listener, theirs, self.options)
        finally:
            os._exit(0)

    def replace_dead(self) -> None:
        """Start a new worker for each process that has died."""
        for index, (line, listener, pid) in enumerate(self.workers):
            if pid and os.waitpid(pid, os.WNOHANG)[0]:
                line.close()
                self.workers[index] = self.start(listener)

    def send(self, word: bytes) -> None:
        """Send this to all workers."""
        for worker in self.workers:
            try:
                worker.line.send(word)
            except OSError:  # it has died
                pass

    def stop(self) -> Iterator[tuple[int, int]]:
        """Let them finish: requests and connections of each process.

        Only they have the listening sockets now: a socket closes when
        its worker has accepted who was in its queue, and from then on
        new clients are refused.
        """
        for listener in self.listeners:
            listener.close()
        self.send(STOP)
        for worker in self.workers:
            try:
                done = worker.line.recv(100).split()
            except OSError:  # it has died
                done = []
            if len(done) == 2:
                yield int(done[0]), int(done[1])
            if worker.pid:
                os.waitpid(worker.pid, 0)


def run(
    make: Make,
    listener: socket.socket,
    parent: socket.socket,
    options: Namespace,
) -> None:
    """Runs in the worker: serve, then report how much was done."""
    try:
        done = serve(make, listener, parent, options)
    except Exception:
        traceback.print_exc()
        os._exit(1)
    parent.setblocking(True)
    parent.send(done.encode())


def serve(
    make: Make,
    listener: socket.socket,
    parent: socket.socket,
    options: Namespace,
) -> str:
    """Serve to the end: "requests connections", or an error."""
    try:
        worker = make(listener, parent, options)
    except (OSError, uring.Unavailable) as error:
        return str(error)
    worker.run()
    if options.worker_kind == "thread":
        return "0 0"  # the parent has counted with us
    return f"{totals['requests']} {totals['connections']}"


def obey(result: int, word: bytes) -> None:
    """In a worker: do as its parent says; without one, end."""
    if word:  # as if the signal had been sent to us
        signals_received.append(signal.SIGTERM)
    if STOP in word:  # perhaps behind another word
        shutting_down.append(signal.SIGTERM)
    elif not word and result != -errno.ECANCELED:
        os._exit(1)


def open_listeners(
    listener: socket.socket, options: Namespace
) -> list[socket.socket]:
    """As many listening sockets on one port as there are workers.

    With SO_REUSEPORT each has its own accept queue and Linux spreads
    the connections over them. Elsewhere the workers share one queue.
    They belong to the parent: while a dead worker is replaced, its
    clients wait in the queue and are not lost.
    """
    number = options.workers
    if sys.platform != "linux":
        return [listener] * number
    found = [listener]
    if number > 1:
        address, family = listener.getsockname(), listener.family
        listener.close()
        found = [
            socket.create_server(
                address, family=family, backlog=BACKLOG, reuse_port=True
            )
            for _ in range(number)
        ]
    for each in found:
        # Accept who has sent something (or was silent for a second):
        # then the first receive is complete as soon as we ask for it.
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, 1)
        # Each accepted socket inherits this: send without delay.
        each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if options.directory:
            # And this: room for one part of a file, not for megabytes,
            # so that we hear of a slow reader's progress.
            each.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, PART)
    return found


def usable_cores() -> int:
    """Cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def best_kind() -> str:
    """Threads need a Python without a GIL to use all the cores."""
    has_gil = getattr(sys, "_is_gil_enabled", lambda: True)
    return "process" if has_gil() else "thread"
