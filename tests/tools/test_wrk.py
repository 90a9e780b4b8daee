"""tools.bench.wrk: reads what wrk prints. The outputs are wrk 4.1.0's."""

import shutil
from pathlib import Path

import pytest

from tests.marks import Patch
from tools.bench import wrk

GOOD, MISSING, RESETS, TOO_LATE = (
    (Path(__file__).parent / "data" / "wrk" / f"{name}.txt").read_text()
    for name in ("good", "missing", "resets", "too_late")
)
REFUSED = "unable to connect to 127.0.0.1:8766 Connection refused\n"
BAD_URL = "invalid URL: foo\nUsage: wrk <options> <url>     \n  Options:\n"
BAD_OPTION = "wrk: invalid option -- 'q'\nUsage: wrk <options> <url>\n"


def test_every_figure_of_a_good_output() -> None:
    run, ended = wrk.parse(GOOD)
    assert (run.requests, run.requests_per_second) == (27172, 24695.40)
    assert run.seconds == pytest.approx(1.10)
    assert (run.failed, run.non_2xx, run.error, ended) == (0, 0, None, True)
    assert run.response_bytes == pytest.approx(9.48 * 2**20 / 27172)
    assert run.latency_ms == pytest.approx({
        "mean": 0.63142, "stdev": 0.91, "p50": 0.312, "p75": 0.419,
        "p90": 1.31, "p99": 4.55, "max": 8.68,
    })


def test_what_goes_wrong_is_counted() -> None:
    errors, _ = wrk.parse(MISSING)  # printed without percentiles
    assert (errors.requests, errors.non_2xx) == (37104, 37104)
    assert set(errors.latency_ms) == {"mean", "stdev", "max"}
    broken, _ = wrk.parse(RESETS)
    assert (broken.requests, broken.failed) == (879, 878)
    late, _ = wrk.parse(TOO_LATE)  # a response after the timeout is none
    assert (late.requests, late.failed) == (0, 2)
    assert (late.requests_per_second, late.latency_ms) == (0.0, {})
    _, ended = wrk.parse(GOOD.replace("Running 1s", "Running 20s"))
    assert not ended


@pytest.mark.parametrize(("printed", "ms"), [
    ("312.00us", 0.312), ("1.31ms", 1.31), ("2.00s", 2000.0),
    ("1.05m", 63_000.0),
])
def test_units_of_time(printed: str, ms: float) -> None:
    text = GOOD.replace("50%  312.00us", f"50%  {printed}")
    assert wrk.parse(text)[0].latency_ms["p50"] == pytest.approx(ms)


@pytest.mark.parametrize(("text", "sentence"), [
    (REFUSED, "wrk could not connect: connection refused"),
    (BAD_URL, "wrk does not accept its command: invalid URL: foo"),
    (BAD_OPTION, "wrk does not accept its command: invalid option -- 'q'"),
    ("", "the output is not wrk's"),
    ("hello", "the output is not wrk's"),
    (GOOD[:200], "wrk ended without figures"),
])
def test_an_output_without_figures_says_why(text: str, sentence: str) -> None:
    assert wrk.parse(text)[0].error == sentence


def test_the_command_and_the_version(monkeypatch: Patch) -> None:
    assert wrk.Load(100, 3).command("http://127.0.0.1:1/") == [
        "wrk", "-t1", "-c100", "-d3s", "--timeout", "10s", "--latency",
        "http://127.0.0.1:1/",
    ]
    differ = wrk.Load(1, 1, differ=True).command("http://127.0.0.1:1/")
    assert differ[-3:-1] == ["-s", "tools/bench/differ.lua"]
    if shutil.which("wrk"):
        assert (wrk.version() or "").startswith(("3.", "4."))
    monkeypatch.setenv("PATH", "/nowhere")
    assert wrk.version() is None
