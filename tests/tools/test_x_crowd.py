"""tools.bench.x_crowd: the load is measured as the server is."""

import argparse
import io
import shutil
from pathlib import Path

import pytest
from rich.console import Console

from tools.bench import x_crowd
from tools.data.results import Machine, Point, Results, Run, load

MACHINE = Machine("CPU", 2, 10**9, "Linux 6.1", "CPython 3.11.7", 1024)
LOAD = "ab" if shutil.which("ab") else "python"


def options(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser(exit_on_error=False)
    x_crowd.add_options(parser)
    parser.add_argument("--repeats", type=int)
    return parser.parse_args(words)


def empty() -> Results:
    return Results(
        "./bench.sh crowd", "crowd", "2026-01-01T00:00:00+00:00", "",
        MACHINE, {}, LOAD,
    )


def test_a_run_is_kept_and_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    loads = x_crowd.loads
    file = io.StringIO()
    results = empty()
    chosen = options("--clients", "5", "--seconds", "1")
    chosen.repeats = 1
    monkeypatch.setattr(x_crowd, "loads", lambda *words: loads(*words)[-1:])
    status = x_crowd.run(
        chosen, results, tmp_path, Console(file=file, width=120)
    )
    assert status == 0, file.getvalue()
    assert load(tmp_path).points == results.points
    (point,) = results.points
    (one,) = point.runs
    assert (point.variant, point.keep_alive) == ("1 worker", True)
    assert one.requests > 10
    assert 0 < one.extra["load_cores"] < 2
    assert one.extra["load_limit_per_second"] > one.requests
    assert one.extra["other_cores"] >= 0
    assert "possible" in file.getvalue()


def test_without_wrk_there_is_no_such_load(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("shutil.which", lambda name: None)
    found = x_crowd.loads("python", 10, 1)
    assert [suite for suite, _, _ in found] == ["crowd-new", "crowd-keep"]
    words = found[1][2].shown("http://127.0.0.1:8000/")
    assert words[:3] == ["python3", "-m", "tools.bench.client"]
    assert "-k" in words


def test_too_many_clients_for_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(x_crowd, "raise_open_files", lambda wanted: 1024)
    file = io.StringIO()
    status = x_crowd.run(options(), empty(), tmp_path, Console(file=file))
    assert status == 1
    assert "4,000 clients are not possible" in " ".join(
        file.getvalue().split()
    )


def test_figures_of_failed_runs_do_not_count() -> None:
    point = Point("07", "crowd-new", 10, 0.1)
    assert x_crowd.middle(point, "load_cores") == 0
    for value, error in ((0.1, None), (0.3, None), (9.0, "no"), (0.2, None)):
        point.runs.append(Run("", extra={"load_cores": value}, error=error))
    assert x_crowd.middle(point, "load_cores") == 0.2


@pytest.mark.parametrize("wrong", [["--clients", "0"], ["--seconds", "x"]])
def test_nonsense_is_refused(wrong: list[str]) -> None:
    with pytest.raises(argparse.ArgumentError):
        options(*wrong)
