"""tools.bench.wrk: reads what wrk prints. The outputs are wrk 4.1.0's."""

import shutil

import pytest

from tests.marks import Patch
from tools.bench import wrk

GOOD = """\
Running 1s test @ http://127.0.0.1:8766/
  1 threads and 10 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   631.42us    0.91ms   8.68ms   90.86%
    Req/Sec    24.82k     8.14k   32.50k    81.82%
  Latency Distribution
     50%  312.00us
     75%  419.00us
     90%    1.31ms
     99%    4.55ms
  27172 requests in 1.10s, 9.48MB read
Requests/sec:  24695.40
Transfer/sec:      8.62MB
"""
MISSING = """\
Running 1s test @ http://127.0.0.1:8766/x
  1 threads and 10 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   299.61us  102.17us   2.50ms   93.27%
    Req/Sec    33.89k     1.97k   35.77k    81.82%
  37104 requests in 1.10s, 6.55MB read
  Non-2xx or 3xx responses: 37104
Requests/sec:  33724.62
Transfer/sec:      5.95MB
"""
RESETS = """\
Running 1s test @ http://127.0.0.1:8766/
  1 threads and 10 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency    12.80ms   11.72ms  40.48ms   49.95%
    Req/Sec     0.88k     0.89k    2.82k    80.00%
  Latency Distribution
     50%   12.20ms
     75%   19.86ms
     90%   28.45ms
     99%   39.93ms
  879 requests in 1.00s, 34.34KB read
  Socket errors: connect 0, read 878, write 0, timeout 0
Requests/sec:    877.89
Transfer/sec:     34.29KB
"""
TOO_LATE = """\
Running 8s test @ http://127.0.0.1:8766/
  1 threads and 3 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     0.00us    0.00us   0.00us    -nan%
    Req/Sec     0.00      0.00     0.00    100.00%
  Latency Distribution
     50%    0.00us
     75%    0.00us
     90%    0.00us
     99%    0.00us
  2 requests in 8.02s, 732.00B read
  Socket errors: connect 0, read 0, write 0, timeout 2
Requests/sec:      0.25
Transfer/sec:      91.30B
"""
REFUSED = "unable to connect to 127.0.0.1:8766 Connection refused\n"
BAD_URL = "invalid URL: foo\nUsage: wrk <options> <url>     \n  Options:\n"
BAD_OPTION = "wrk: invalid option -- 'q'\nUsage: wrk <options> <url>\n"


def test_every_figure_of_a_good_output() -> None:
    report = wrk.parse(GOOD)
    assert (report.requests, report.per_second) == (27172, 24695.40)
    assert report.seconds == pytest.approx(1.10)
    assert report.failed == report.non_2xx == 0
    assert report.finished
    assert report.response_bytes == pytest.approx(9.48 * 2**20 / 27172)
    assert report.latency_ms == pytest.approx({
        "mean": 0.63142, "p50": 0.312, "p75": 0.419, "p90": 1.31,
        "p99": 4.55, "max": 8.68,
    })


def test_what_goes_wrong_is_counted() -> None:
    errors = wrk.parse(MISSING)  # printed without percentiles
    assert (errors.requests, errors.non_2xx) == (37104, 37104)
    assert set(errors.latency_ms) == {"mean", "max"}
    broken = wrk.parse(RESETS)
    assert (broken.requests, broken.failed) == (879, 878)
    assert broken.errors == {
        "connect": 0, "read": 878, "write": 0, "timeout": 0,
    }
    late = wrk.parse(TOO_LATE)  # an answer after the timeout is none
    assert (late.requests, late.failed, late.per_second) == (0, 2, 0.0)
    assert late.latency_ms == {}
    assert not wrk.parse(GOOD.replace("Running 1s", "Running 20s")).finished


@pytest.mark.parametrize(
    ("printed", "ms"),
    [("312.00us", 0.312), ("1.31ms", 1.31), ("2.00s", 2000.0),
     ("1.05m", 63_000.0)],
)
def test_units_of_time(printed: str, ms: float) -> None:
    text = GOOD.replace("50%  312.00us", f"50%  {printed}")
    assert wrk.parse(text).latency_ms["p50"] == pytest.approx(ms)


@pytest.mark.parametrize(("text", "sentence"), [
    (REFUSED, "wrk could not connect: connection refused"),
    (BAD_URL, "wrk does not accept its command: invalid URL: foo"),
    (BAD_OPTION, "wrk does not accept its command: invalid option -- "
     "'q'"),
    ("", "the output is not wrk's"),
    ("hello", "the output is not wrk's"),
    (GOOD[:200], "wrk ended without figures"),
])
def test_an_output_without_figures_says_why(text: str, sentence: str) -> None:
    with pytest.raises(wrk.WrkError) as caught:
        wrk.parse(text)
    assert str(caught.value) == sentence


def test_the_command_and_the_version(monkeypatch: Patch) -> None:
    assert wrk.Load(100, 3).command("http://127.0.0.1:1/") == [
        "wrk", "-t1", "-c100", "-d3s", "--timeout", "10s", "--latency",
        "http://127.0.0.1:1/",
    ]
    if shutil.which("wrk"):
        assert (wrk.version() or "").startswith(("3.", "4."))
    monkeypatch.setenv("PATH", "/nowhere")
    assert wrk.version() is None
