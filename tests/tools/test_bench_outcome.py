"""tools.bench.outcome and load: what is kept, and what is no figure."""

from pathlib import Path
from typing import Any

import pytest

from tools.bench import outcome
from tools.bench.load import fault
from tools.data import raw
from tools.data.results import Machine, Point, Results, Run, load

MACHINE = Machine("CPU", 2, 10**9, "Linux 6.1", "CPython 3.11.7", 1024)
STARTED = "2026-01-01T00:00:00+00:00"


@pytest.mark.parametrize(("figures", "late", "words"), [
    ({}, False, None), ({}, True, "the server had stopped answering"),
    ({"requests": 0}, True, "no request was answered (1 failed)"),
    ({"non_2xx": 2}, True, "2 responses were errors (not 2xx)"),
    ({"failed": 11}, False, "more requests failed (11)"),
])
def test_any_fault_spoils_a_run(
    figures: dict[str, Any], late: bool, words: str | None
) -> None:
    said = fault(Run("", **{"requests": 10, "failed": 1, **figures}), late)
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
