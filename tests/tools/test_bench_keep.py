"""tools.bench.keep: what is kept of a run, and numbers."""

import argparse
from pathlib import Path

import pytest

from tools.bench import keep
from tools.bench.wrk import Report
from tools.data.results import Machine, Point, Results, Run
from tools.servers import ROOT

MACHINE = Machine("CPU", 2, 10**9, "Linux 6.1", "CPython 3.11.7", 1024)


def report(requests: int = 10, non_2xx: int = 0) -> Report:
    return Report(requests, 1, non_2xx, 2.0, 5.0, 300.0, True, {"max": 7.0})


def test_figures_of_time_can_be_left_out() -> None:
    one, other = Run(""), Run("")
    keep.take_report(one, report())
    assert (one.requests, one.failed, one.response_bytes) == (10, 1, 300.0)
    assert (one.seconds, one.requests_per_second) == (2.0, 5.0)
    assert one.latency_ms == {"max": 7.0}
    keep.take_report(other, report(), timed=False)
    assert other == Run("", requests=10, failed=1, response_bytes=300.0)


@pytest.mark.parametrize(
    ("found", "late", "words"),
    [
        (report(), False, None),
        (report(), True, "cut"),
        (report(0), True, "no request was answered (1 failed)"),
        (report(10, 2), True, "2 answers were errors (not 2xx)"),
    ],
)
def test_any_fault_spoils_a_run(
    found: Report, late: bool, words: str | None
) -> None:
    assert keep.any_fault(found, late, "cut") == words


def test_a_point_fails_when_all_its_runs_do() -> None:
    results = Results(
        "./bench.sh crowd", "crowd", "2026-01-01T00:00:00+00:00", "",
        MACHINE, {},
    )
    point = Point("07", "crowd-new", 10, 0.1)
    keep.add(results, point, Run("", error="it died"))
    assert (point.status, point.reason) == ("failed", "it died")
    keep.add(results, point, Run("", requests=1))
    assert (point.status, point.reason) == ("ok", "")
    assert results.points == [point]


def test_raw_outputs_stand_under_their_commands(tmp_path: Path) -> None:
    for text in ("first\n\n", f"{ROOT}/second"):
        keep.keep_raw(tmp_path, "07", "one\ntwo", text)
    found = (tmp_path / "raw" / "07.txt").read_text(encoding="utf-8")
    assert found == "$ one\n$ two\nfirst\n\n$ one\n$ two\nsecond\n\n"


@pytest.mark.parametrize("text", ["0", "11", "x", "", "1.5"])
def test_a_number_has_its_limits(text: str) -> None:
    for check in (keep.number(1, 10), keep.whole(1, 10)):
        assert check("10") == 10
        with pytest.raises(argparse.ArgumentTypeError, match="from 1 to 10"):
            check(text)


def test_a_whole_number_is_digits_alone() -> None:
    assert keep.number(0.5, 2, float)("1.5") == 1.5
    assert isinstance(keep.whole(1, 10)("3"), int)
    for text in ("+3", " 3", "1_0"):
        with pytest.raises(argparse.ArgumentTypeError, match="not a number"):
            keep.whole(1, 10)(text)


def test_a_figure_that_is_missing_is_an_empty_cell() -> None:
    assert keep.formatted(None, "{:.1f}") == ""
    assert keep.formatted(2_500_000, "{:.1f}", 1_000_000) == "2.5"
