"""tools.bench.outcome and numbers: what is kept, and options."""

import argparse
from dataclasses import replace
from pathlib import Path

import pytest

from tools.bench import numbers, outcome
from tools.bench.report import Report
from tools.data import raw
from tools.data.results import Machine, Point, Results, Run, load
from tools.servers import ROOT

MACHINE = Machine("CPU", 2, 10**9, "Linux 6.1", "CPython 3.11.7", 1024)
STARTED = "2026-01-01T00:00:00+00:00"


def report(requests: int = 10, non_2xx: int = 0) -> Report:
    return Report(requests, 1, non_2xx, 2.0, 5.0, 300.0, True, {"max": 7.0})


def test_figures_of_time_can_be_left_out() -> None:
    one, other = Run(""), Run("")
    outcome.take_report(one, report())
    outcome.take_report(other, report(), timed=False)
    rest = {"requests": 10, "failed": 1, "response_bytes": 300.0}
    assert other == Run("", **rest)  # type: ignore[arg-type]
    assert one == Run(
        "", seconds=2.0, requests_per_second=5.0, latency_ms={"max": 7.0},
        **rest,  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(("found", "late", "words"), [
    (report(), False, None),
    (report(), True, "the server had stopped answering"),
    (report(0), True, "no request was answered (1 failed)"),
    (report(10, 2), True, "2 answers were errors (not 2xx)"),
    (replace(report(), failed=11), False, "more requests failed (11)"),
])
def test_any_fault_spoils_a_run(
    found: Report, late: bool, words: str | None
) -> None:
    said = outcome.any_fault(found, late)
    assert (words or "") in (said or "") and bool(said) == bool(words)


def test_a_point_fails_when_all_its_runs_do() -> None:
    results = Results("./bench.sh crowd", "crowd", STARTED, "", MACHINE, {})
    point = Point("07", "crowd-new", 10, 0.1)
    outcome.add(results, point, Run("", error="it died"))
    assert (point.status, point.reason) == ("failed", "it died")
    outcome.add(results, point, Run("", requests=1))
    assert (point.status, point.reason) == ("ok", "")
    assert results.points == [point]


def test_raw_outputs_stand_under_their_commands(tmp_path: Path) -> None:
    for text in ("first\n\n", f"{ROOT}/second in {Path.home()}"):
        outcome.keep_raw(tmp_path, "07", "one\ntwo", text)
    assert raw.read(tmp_path, "07") == (
        "$ one\n$ two\nfirst\n\n$ one\n$ two\nsecond in ~\n\n"
    )


def test_a_complete_run_becomes_the_reference(tmp_path: Path) -> None:
    reference = tmp_path / "data" / "reference"
    reference.mkdir(parents=True)
    (reference / "old").write_text("old")
    fresh = tmp_path / "results" / "now"
    outcome.keep_raw(fresh, "07", "ab", "text")
    ran = Run("ab", 1, peak_memory=1, latency_ms={"p50": 1, "p66": 2})
    point = Point("02", "classic", 10, 0.1, runs=[ran])
    results = Results(
        "./bench.sh", "peers", STARTED, "", MACHINE, {}, complete=True,
        points=[point],
    )
    results.save(fresh)
    assert load(fresh) == load(fresh / "results.json") == results
    assert outcome.make_reference(fresh, reference) == reference
    (kept,) = load(reference).points[0].runs
    assert kept == Run("ab", 1)  # what a page reads of the peers
    assert raw.names(reference) == ["07"]
    assert not (reference / "old").exists()
    assert not fresh.exists()


@pytest.mark.parametrize("text", ["0", "11", "x", "", "1.5"])
def test_a_number_has_its_limits(text: str) -> None:
    check = numbers.number(1, 10)
    assert check("10") == 10
    with pytest.raises(argparse.ArgumentTypeError, match="from 1 to 10"):
        check(text)
