"""tools.bench.outcome and numbers: what is kept, and options."""

from dataclasses import replace
from pathlib import Path

import pytest

from tools.bench import outcome
from tools.bench.report import Report
from tools.data import raw
from tools.data.results import Machine, Point, Results, Run, load

MACHINE = Machine("CPU", 2, 10**9, "Linux 6.1", "CPython 3.11.7", 1024)
STARTED = "2026-01-01T00:00:00+00:00"


def report(requests: int = 10, non_2xx: int = 0) -> Report:
    return Report(requests, 1, non_2xx, 2.0, 5.0, 300.0, True, {"max": 7.0})


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
    assert load(reference) == results
    assert raw.names(reference) == ["07"]
    assert not (reference / "old").exists()
    assert not fresh.exists()
