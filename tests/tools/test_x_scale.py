"""tools.bench.x_scale: calibration, cases, speed-up."""

import argparse
import io
import shutil
import time
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from tools.bench import x_scale
from tools.data.results import Machine, Point, Results, Run, load
from tools.servers import by_name

MACHINE = Machine("CPU", 2, 10**9, "Linux 6.1", "CPython 3.11.7", 1024)
LOAD = "ab" if shutil.which("ab") else "python"


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    x_scale.add_options(parser)
    parser.add_argument("--repeats", type=int)
    return parser.parse_args(words)


def test_the_calibration_takes_about_a_millisecond() -> None:
    steps = x_scale.calibrate()
    begun = time.process_time()
    for _ in range(100):
        for _ in range(steps):
            pass
    assert 0.03 < time.process_time() - begun < 1


def test_cases() -> None:
    found = [(c.server.name, c.variant) for c in x_scale.cases(2)]
    assert found[:2] == [("07", "1 worker"), ("07", "2 workers")]
    assert found[-1] == ("03", "2 cores")
    assert [c.variant for c in x_scale.cases(1) if c.server.name == "07"] == [
        "1 worker"
    ]


def test_a_speed_up_is_counted_from_the_same_turn() -> None:
    one = Point("07", "scale", 64, 0.0, variant="1 worker")
    one.runs = [Run("", requests_per_second=r) for r in (100.0, 50.0)]
    two = Point("07", "scale", 64, 0.0, variant="2 workers")
    case = x_scale.Case(by_name("07"), "2 workers", (), "1 worker")
    for turn, rate, times in ((1, 190.0, 1.9), (2, 110.0, 2.2)):
        run = Run("", requests_per_second=rate)
        x_scale.speed_up(run, [one, two], case, turn)
        assert run.extra == {"speed_up_times": times}
    run = Run("", requests_per_second=1.0)
    x_scale.speed_up(run, [one, two], case, 3)  # the other one failed
    assert run.extra == {}


def test_a_run_is_kept_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one_core = hasattr(psutil.Process, "cpu_affinity")
    case = x_scale.Case(by_name("03"), "1 core", (), "1 core", one_core)
    monkeypatch.setattr(x_scale, "cases", lambda cores: [case])
    file = io.StringIO()
    results = Results(
        "./bench.sh scale", "scale", "2026-01-01T00:00:00+00:00", "",
        MACHINE, {}, LOAD,
    )
    chosen = options("--clients", "4", "--seconds", "1", "--compute", "1000")
    chosen.repeats = 1
    console = Console(file=file, width=120)
    status = x_scale.run(chosen, results, tmp_path, console)
    assert status == 0, file.getvalue()
    assert load(tmp_path).points == results.points
    (point,) = results.points
    assert point.compute == 1000
    assert "--compute 1000" in point.runs[0].command
    assert point.runs[0].requests > 10
    assert "03, 1 core" in file.getvalue()


@pytest.mark.parametrize("wrong", [["--clients", "0"], ["--compute", "no"]])
def test_nonsense_is_refused(wrong: list[str]) -> None:
    with pytest.raises(argparse.ArgumentError):
        options(*wrong)
