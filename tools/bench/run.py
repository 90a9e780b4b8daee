"""Measures the points of a plan, one after the other, and keeps them."""

import contextlib
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.markup import escape
from rich.progress import Progress, TaskID

from tools.bench import ab, plan, strace, wrk
from tools.bench.cost import SAMPLE_SECONDS, Meter
from tools.bench.outcome import add, keep_raw, take_cost, take_report
from tools.bench.peers import start as peers
from tools.bench.report import NoFigures, Report
from tools.bench.server import Running, ServerError, start
from tools.data.results import Point, Results, Run
from tools.peers import Peer
from tools.servers import ROOT, Server

GRACE_SECONDS = 4.0  # for ab to end by itself after its -t
SLACK_SECONDS = 60.0  # on top of what a load without -t needs
DYING_SECONDS = 0.3  # for a server that failed to end
END_SECONDS = 3.0  # for ab to print its figures after an interrupt

# Name in commands -> how to run it.
PROGRAMS = {
    "ab": ("ab",),
    "python": (sys.executable, "-m", "tools.bench.client"),
    "wrk": ("wrk",),
}
SHOWN = {**PROGRAMS, "python": ("python3", "-m", "tools.bench.client")}


class Bench:
    """Measures for one `Results` and saves after every run."""

    def __init__(
        self,
        results: Results,
        folder: Path,
        progress: Progress,
        limit: tuple[int, str],
    ) -> None:
        """limit: the most clients this machine can hold, and why."""
        self.results = results
        self.folder = folder
        self.progress = progress
        self.limit = limit
        self._begun = time.monotonic()

    # What to measure -----------------------------------------------------

    def measure_all(self, tasks: list[plan.Task]) -> None:
        """Measure tasks, their repeats interleaved."""
        total = sum(task.seconds * task.repeats for task in tasks)
        with self._stage(total) as bar:
            for task, number in plan.interleave(tasks):
                self._run(task, number)
                self.progress.advance(bar, task.seconds)

    def sweep(self, servers: list[Server], repeats: int) -> None:
        """More and more clients, each server as far as it survives."""
        rates: dict[str, list[float]] = {s.name: [] for s in servers}
        alive = list(servers)
        each = plan.sweep_seconds(1, 1) / len(plan.SWEEP_CLIENTS)
        with self._stage(plan.sweep_seconds(len(servers), repeats)) as bar:
            for clients in plan.SWEEP_CLIENTS:
                if clients > self.limit[0]:
                    break
                tasks = [
                    plan.sweep_task(s, clients, repeats, rates[s.name])
                    for s in alive
                ]
                for task, number in plan.interleave(tasks):
                    if not self._point(task).end:
                        run = self._run(task, number)
                        self._point(task).end = too_slow(run, clients)
                    self.progress.advance(bar, each)
                for task in tasks:
                    point = self._point(task)
                    judge(point)
                    rate = point.median("requests_per_second")
                    rates[point.server].append(rate or 0.0)
                    if point.end:
                        alive = [s for s in alive if s.name != point.server]
                        self._say(
                            f"[yellow]{point.server} ends at {clients} "
                            f"clients: {escape(point.reason)}"
                        )
                self._save()
            else:
                return
        for one in alive:
            for point in self.results.suite("sweep", one.name)[-1:]:
                point.end, point.reason = True, self.limit[1]
        self._say(f"[yellow]The sweep ends here: {self.limit[1]}.")
        self._save()

    def skip(self, tasks: list[plan.Task], reason: str) -> None:
        """Note why these are not measured."""
        for task in tasks:
            point = self._point(task)
            point.status, point.reason = "skipped", reason
            self.results.points.append(point)
        self._save()

    # One run -------------------------------------------------------------

    def _run(self, task: plan.Task, number: int) -> Run:
        """Measure once, say so, keep it."""
        run = self._measure(task, number)
        add(self.results, self._point(task), run)
        self._say(f"  {escape(summary(run))}")
        self._save()
        return run

    def _measure(self, task: plan.Task, number: int) -> Run:
        run = Run(planned_command(task))
        try:
            with launch(task) as process:
                run.command = process.command
                process.warm_up(plan.WARM_UP.get(task.delay, 2))
                self._load(task, process, run, number)
                # One that is dying may still need a moment.
                moment = DYING_SECONDS if run.failed or run.error else 0.0
                if process.wait(moment) is not None:
                    run.error = f"the server died: {process.last_words()}"
            if run.context_switches is not None and process.switches:
                before = run.context_switches
                run.context_switches = max(process.switches - before, 0)
        except (ServerError, strace.StraceError) as error:
            run.error = str(error)
        return run

    def _load(
        self, task: plan.Task, process: Running, run: Run, number: int
    ) -> None:
        """Run the load; what it and the server did goes into the run."""
        load = task.load
        name = "wrk" if isinstance(load, wrk.Load) else self.results.load
        shown = " ".join(load.command(process.url, SHOWN[name]))
        run.command += f"\n{shown}"
        which = task.server.name
        if task.repeats > 1:
            which += f", run {number} of {task.repeats}"
        self._say(f"[bold]{which}[/bold] {task.suite}  [cyan]$ {shown}")
        words = load.command(process.url, PROGRAMS[name])
        if task.suite == "syscalls":
            pids = [member.pid for member in process.processes()]
            with strace.count(pids) as counter:
                run.command += f"\n{counter.command}"
                text, late = run_load(words, patience(task), lambda: None)
            run.system_calls = counter.calls
            raw = f"{text}\n{counter.table}"
        else:
            meter = Meter(process)
            text, late = run_load(words, patience(task), meter.sample)
            cost = meter.read()
            take_cost(run, cost)
            # Those before; the rest is known when the server has ended.
            run.context_switches = cost.switches_before
            raw = text
        keep_raw(self.folder, task.server.name, run.command, raw)
        fill(task, run, text, late)

    # Screen and disk -----------------------------------------------------

    def _point(self, task: plan.Task) -> Point:
        """The task's point in the results, or a new one without runs."""
        load = task.load
        found = self.results.find(task.server.name, task.suite, load.clients)
        return found or Point(
            server=task.server.name, suite=task.suite, clients=load.clients,
            delay=task.delay, keep_alive=load.keep_alive,
            variant=task.variant,
        )

    def _save(self) -> None:
        self.results.seconds = round(time.monotonic() - self._begun, 1)
        self.results.save(self.folder)

    def finish(self) -> None:
        """Mark the run as complete."""
        self.results.complete = True
        self._save()

    def _say(self, text: str) -> None:
        self.progress.console.print(text, highlight=False, soft_wrap=True)

    @contextlib.contextmanager
    def _stage(self, seconds: float) -> Iterator[TaskID]:
        bar = self.progress.add_task("Measuring", total=seconds)
        try:
            yield bar
        finally:
            self.progress.remove_task(bar)


def launch(
    task: plan.Task,
) -> contextlib.AbstractContextManager[Running]:
    """The task's server, started and stopped. Raises ServerError."""
    if isinstance(task.server, Peer):
        return peers.start(task.server)
    return start(task.server, task.delay, task.options)


def planned_command(task: plan.Task) -> str:
    """How the task's server is started, for one that does not start."""
    if isinstance(task.server, Peer):
        return peers.planned_command(task.server)
    words = ["python3", task.server.file, "--delay", f"{task.delay:g}"]
    return " ".join([*words, *task.server.options, *task.options])


def patience(task: plan.Task) -> float:
    """Seconds after which a load is interrupted."""
    load = task.load
    if isinstance(load, wrk.Load) or load.seconds is not None:
        return (load.seconds or 0) + GRACE_SECONDS
    return load.requests * task.delay + SLACK_SECONDS


def run_load(
    words: list[str], seconds: float, tick: Callable[[], None]
) -> tuple[str, bool]:
    """Run a load generator; its output, and whether it was interrupted.

    After ``seconds`` it gets an interrupt, on which ab prints what it
    has. ``tick`` is called every SAMPLE_SECONDS meanwhile.
    """
    deadline = time.monotonic() + seconds
    with tempfile.TemporaryFile("w+b") as output:
        process = subprocess.Popen(
            words, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=output,
            stderr=subprocess.STDOUT, start_new_session=True,
        )
        late = False
        try:
            while process.poll() is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(SAMPLE_SECONDS)
                tick()
                if not late and time.monotonic() > deadline:
                    late = True
                    process.send_signal(signal.SIGINT)
                if late and time.monotonic() > deadline + END_SECONDS:
                    break
        finally:
            process.kill()  # nothing, if it has ended
            process.wait()
        output.seek(0)
        return output.read().decode("utf-8", "replace"), late


def fill(task: plan.Task, run: Run, text: str, late: bool) -> None:
    """The load generator's figures into a run, and what was wrong."""
    try:
        parse = wrk.parse if isinstance(task.load, wrk.Load) else ab.parse
        report = parse(text)
    except NoFigures as error:
        run.requests = error.requests
        run.error = str(error)
        return
    # strace makes everything slow
    take_report(run, report, timed=task.suite != "syscalls")
    if task.suite == "peer-keep" and isinstance(task.load, ab.Load):
        kept = report.kept_alive / max(report.requests, 1)
        run.extra["kept_alive_share"] = round(min(kept, 1.0), 4)
    run.error = fault(report, late)


def fault(report: Report, late: bool) -> str | None:
    """Why a report is no good figure, None if it is one."""
    if report.requests == 0:
        return f"no request was answered ({report.failed} failed)"
    if report.non_2xx >= report.requests:
        return "every answer was an error (not 2xx)"
    if report.failed > report.requests:
        return (
            f"more requests failed ({report.failed}) than were answered "
            f"({report.requests})"
        )
    if late or not report.finished:
        return (
            f"interrupted after {report.seconds:.0f} s: the server had "
            "stopped answering"
        )
    return None


def too_slow(run: Run, clients: int) -> bool:
    """True if a client waited longer than anybody would."""
    worst = run.latency_ms.get("max", 0.0)
    return worst > plan.PATIENCE_MS or 0 < run.requests < clients


def trouble(run: Run, clients: int) -> str:
    """Why a run ends a server's line in the sweep; "" if it does not."""
    worst = run.latency_ms.get("max", 0.0)
    if run.error is not None:
        return run.error
    # Before failures: ab counts what its -t cuts short as one.
    if worst > plan.PATIENCE_MS:
        return f"a client waited {worst / 1000:.1f} s for its answer"
    if run.failed:
        return f"{run.failed} of {run.requests + run.failed} requests failed"
    if run.non_2xx:
        return f"{run.non_2xx} of {run.requests} answers were errors"
    if run.requests < clients:
        return (
            f"{clients - run.requests} of {clients} clients had no answer "
            f"after {run.seconds:.0f} s"
        )
    return ""


def judge(point: Point) -> None:
    """Decide whether a sweep ends at this point, and note why."""
    found = [trouble(run, point.clients) for run in point.runs]
    reasons = [text for text in found if text]
    point.end = point.end or 2 * len(reasons) > len(point.runs)
    point.reason = reasons[-1] if point.end and reasons else ""


def summary(run: Run) -> str:
    """One line on a run for the screen."""
    if run.error is not None:
        return f"failed: {run.error}"
    if run.system_calls:
        calls = run.figure("calls_per_request") or 0.0
        return f"{calls:.1f} system calls a request"
    words = f"{run.requests_per_second or 0:,.1f} requests/s"
    if "p99" in run.latency_ms:
        words += (
            f", half within {run.latency_ms['p50']:,.0f} ms, "
            f"99 % within {run.latency_ms['p99']:,.0f} ms"
        )
    if run.failed:
        words += f", {run.failed} failed"
    return words
