"""Run a file on the simulated kernel, and print its trace as JSON.

In a process of its own: a file that hangs is ended from outside.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
import tomllib
import traceback
import types
from collections.abc import Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

from tools.steps import modules
from tools.steps.kernel import MOST_STEPS, Kernel, Stopped, Thread
from tools.steps.sockets import Client, End, Table

SCENARIOS = Path(__file__).with_name("scenarios.toml")
MOST_PROCESSES = 4


def scenarios() -> dict[str, Any]:
    """All of the list, by their names."""
    return tomllib.loads(SCENARIOS.read_text("utf-8"))


def scenario(name: str) -> dict[str, Any]:
    """A scenario of the list, or of a JSON file of the same form.

    Raises KeyError if there is none.
    """
    if name.endswith(".json"):
        found = json.loads(Path(name).read_text("utf-8"))
        found.setdefault("title", Path(name).stem)
    else:
        found = scenarios()[name]
    found["clients"] *= found.pop("copies", 1)
    return dict(found)


def shows(test: str) -> str:
    """The scenario that shows why a test fails, as 02.3/test_silent; or ""."""
    return next(
        (name for name, plan in scenarios().items()
         if test in plan.get("tests", ())), "",
    )


class Run:
    """One file and its clients."""

    def __init__(
        self, file: Path, plan: dict[str, Any], options: Sequence[str] = (),
        interval: int = 0, last_step: int = MOST_STEPS + 1,
    ) -> None:
        self.file, self.options = file.resolve(), options
        self.kernel = Kernel(self.trace, interval, last_step)
        self.code = self.compile()
        self.clients = [
            Client(self.kernel, number, each)
            for number, each in enumerate(plan["clients"])
        ]
        self.tables: list[Table] = []
        self.timers: list[float] = []
        self.tasks: dict[str, int] = {}
        self.modules: list[dict[str, Any]] = []  # of each process
        self.inside = -1  # the process whose modules are imported
        self.kept = {name: sys.modules[name] for name in sys.modules
                     if not modules.belongs(name)}
        self.kernel.entering = self.enter
        self.kernel.looking, self.kernel.opening = self.look, self.open
        self.kernel.closing = self.close
        self.seen: list[list[Any]] = []  # at the last step

    def compile(self) -> CodeType:
        """Raises Stopped for a syntax error."""
        try:
            return compile(self.file.read_bytes(), str(self.file), "exec")
        except SyntaxError as error:
            raise Stopped(
                f"line {error.lineno} is not Python: {error.msg}"
            ) from None

    def trace(self, frame: FrameType, event: str, detail: Any) -> Any:
        """Python calls this for each line; those of the file are noted."""
        if frame.f_code.co_filename != str(self.file):
            return None
        kernel = self.kernel
        thread = kernel.current
        if event == "line" and thread:
            if kernel.interval and thread.lines >= kernel.interval:
                kernel.let_others_run()
            thread.lines += 1
            thread.line = frame.f_lineno
            kernel.note("line", frame.f_lineno)
        return self.trace

    # Processes.

    def start(
        self, forks: int = 0, held: dict[int, End] | None = None
    ) -> int:
        """A new process, which runs the file; its number.

        forks: it is a child of that fork (counted from 1), so it is the
        same program once more, as far as that fork, where it gets a 0.
        held: what it has open by then.
        """
        number = len(self.tables)
        if number == MOST_PROCESSES:
            raise self.kernel.stop(
                f"it starts more than {MOST_PROCESSES} processes"
            )
        table = Table(self.kernel, number)
        table.inherited = held or {}
        self.tables.append(table)
        self.modules.append({})
        seen = 0

        def fork() -> int:
            nonlocal seen
            seen += 1
            if seen < forks:
                return modules.FIRST_PID
            if seen == forks:
                thread.silent = False
                return 0
            self.kernel.note("call", "fork")
            held = {fd: sock.end for fd, sock in table.open.items()}
            for end in held.values():
                end.holders += 1
            child = self.start(seen, held)
            self.kernel.children.setdefault(number, set()).add(child)
            return modules.FIRST_PID + child

        self.modules[number] = modules.modules_for(self.kernel, table, fork)
        name = f"child {number}" if forks else "main"
        thread = self.kernel.start(lambda: self.main(table), name, number)
        thread.silent = bool(forks)
        return number

    def enter(self, thread: Thread) -> None:
        """Import is what the process of this thread has imported."""
        if thread.process == self.inside:
            return
        if self.inside >= 0:
            self.modules[self.inside] = {
                name: module for name, module in sys.modules.items()
                if self.kept.get(name) is not module
            }
        self.inside = thread.process
        sys.modules.clear()
        sys.modules.update(self.kept)
        sys.modules.update(self.modules[self.inside])

    def main(self, table: Table) -> None:
        """The main thread of a process: the file, from its first line."""
        def no_files(*words: Any, **options: Any) -> None:
            line = self.kernel.current.line if self.kernel.current else 0
            raise self.kernel.stop(
                f"line {line}: it opens a file, which is not simulated"
            )

        module = types.ModuleType("__main__")
        module.open = no_files  # type: ignore
        module.__file__ = str(self.file)
        sys.modules["__main__"] = module
        if (self.file.parent / "emulated.py").exists():
            sys.modules["uring"] = modules.uring_module(table)
        try:
            exec(self.code, module.__dict__)
        except SystemExit as error:
            raise self.kernel.stop(f"it ends: {error}") from None

    # What is shown.

    def look(self) -> None:
        """Note what a process has in its memory: timers, tasks."""
        main = sys.modules["__main__"].__dict__
        timers = [round(each[0], 6) for each in main.get("timers", ())]
        if timers != self.timers:
            self.timers = timers
            self.kernel.note("timers", sorted(timers))
        if "asyncio" in sys.modules:
            self.look_at_tasks(sys.modules["asyncio"])

    def look_at_tasks(self, asyncio: Any) -> None:
        """In which line of the file does each task wait?"""
        with contextlib.suppress(RuntimeError):  # no loop runs here
            tasks = {}
            for task in asyncio.all_tasks():
                coroutine, line = task.get_coro(), 0
                while coroutine is not None:
                    frame = getattr(coroutine, "cr_frame", None)
                    if frame and frame.f_code.co_filename == str(self.file):
                        line = frame.f_lineno
                    coroutine = getattr(coroutine, "cr_await", None)
                tasks[task.get_name()] = line
            tasks = dict(sorted(tasks.items()))
            if tasks != self.tasks:
                self.tasks = tasks
                self.kernel.note("tasks", tasks)

    def open(self) -> None:
        """The server has started: the clients begin."""
        for client in self.clients:
            client.begin(self.listeners)

    def listeners(self) -> list[Any]:
        """The listening sockets; one that several processes hold once."""
        found = {
            id(sock.end): sock for table in self.tables
            for sock in table.open.values() if sock.end.queue is not None
        }
        return list(found.values())

    def close(self) -> None:
        """What a reader sees now: [title, lines] of each panel.

        Of the kernel itself; step.js gets the same out of the trace.
        """
        kernel, several = self.kernel, len(self.tables) > 1
        of = " of process {}" if several else ""
        on = " (process {})" if several else ""
        ends = {
            sock.end.incoming: f"{fd}{on.format(table.process + 1)}"
            for table in self.tables for fd, sock in table.open.items()
        }
        queues = [
            f"{fd}{on.format(table.process + 1)}: " + (", ".join(
                f"client {each.number + 1}" for each in sock.end.queue
            ) or "empty")
            for table in self.tables for fd, sock in table.open.items()
            if sock.end.queue is not None
        ]
        found: list[list[Any]] = [
            ["Clients", [f"{c.number + 1}: {c.seen()}"
                         for c in self.clients]],
            ["Accept queue", queues or ["no socket listens"]],
            ["Connections", [
                f"{ends[c.sent]}: client {c.number + 1}, "
                f"{len(c.sent.data)} bytes wait"
                for c in self.clients if c.sent in ends
            ] or ["none"]],
            ["Threads", [
                f"{each.name}{of.format(each.process + 1)}: "
                + (f"blocked in {each.blocked} since {each.since:.3f} s"
                   if each.blocked else "runs")
                + (f", line {each.line}" if each.line else "")
                for each in kernel.threads
            ]],
        ]
        watched: dict[str, bool] = {}
        operations: list[str] = []
        for kind, _, _, *rest in kernel.trace:
            if kind == "watch":
                watched[f"{rest[0]}"] = False
            elif kind == "unwatch":
                watched.pop(f"{rest[0]}", None)
            elif kind == "ready":
                watched = {fd: int(fd) in rest[0] for fd in watched}
            elif kind == "submit" and rest[0] != "close":
                operations.append(f"{rest[0]} on {rest[1]}")
            elif kind == "complete" and rest[0] != "accept":
                operations.remove(f"{rest[0]} on {rest[1]}")
        if watched and not several:
            found.append(["The selector watches", [
                f"{fd}: ready" if ready else fd
                for fd, ready in watched.items()
            ]])
        if self.timers:
            found.append(["Timers", [f"{t:.3f} s" for t in self.timers]])
        if self.tasks:
            found.append(["Tasks", [
                f"{name}: awaits in line {line}" if line else name
                for name, line in self.tasks.items()
            ]])
        if operations:
            found.append(["Operations in flight", operations])
        self.seen = found

    def whole(self) -> dict[str, Any]:
        """The trace and what became of the clients; `error` if it stopped.

        A client's numbers: its state, when its first and its last byte of
        a response arrived, how many bytes.
        """
        error = ""
        sys.path[0] = str(self.file.parent)
        sys.argv = [str(self.file), *self.options]
        try:
            self.start()
            self.kernel.run(lambda: all(c.ended() for c in self.clients))
        except Stopped as stopped:
            error = str(stopped)
        except BaseException as crash:
            error = explained(crash, str(self.file))
        return {
            "trace": self.kernel.trace, "error": error, "seen": self.seen,
            "clients": [[c.state, c.first, c.last, c.got]
                        for c in self.clients],
        }


def explained(error: BaseException, file: str) -> str:
    """An exception that ended the file, with the line of the file."""
    lines = [
        each.lineno for each in traceback.extract_tb(error.__traceback__)
        if each.filename == file
    ]
    where = f"line {lines[-1]}: " if lines else ""
    return f"{where}{type(error).__name__}: {error}"


def main() -> None:
    """FILE SCENARIO LAST_STEP INTERVAL [OPTION ...]; prints JSON."""
    file, name, last, interval, *options = sys.argv[1:]
    out = os.dup(1)  # what the file prints is not the trace
    os.dup2(2, 1)
    try:
        found = Run(
            Path(file), scenario(name), options, int(interval), int(last)
        ).whole()
    except Stopped as stopped:
        found = {"trace": [], "clients": [], "error": str(stopped)}
    text = json.dumps(found, separators=(",", ":")) + "\n"
    with open(out, "w", encoding="utf-8") as stream:
        stream.write(text)
    os._exit(0)  # its threads are blocked for good


if __name__ == "__main__":
    main()
