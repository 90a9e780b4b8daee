"""tools.bench.ab: command lines, and every kind of output."""

import random
from pathlib import Path

import pytest

from tools.bench import ab
from tools.data.results import LATENCIES, Run

DATA = Path(__file__).parent / "data" / "ab"
URL = "http://127.0.0.1:8000/"


def read(name: str) -> str:
    return (DATA / f"{name}.txt").read_text(encoding="utf-8")


def test_the_command_has_the_limit_before_the_number() -> None:
    load = ab.Load(10, 1_000_000, seconds=2, keep_alive=True)
    assert " ".join(load.command(URL, ("ab",))) == (
        f"ab -k -r -t 2 -n 1000000 -c 10 {URL}"
    )


def test_a_good_run() -> None:
    assert ab.parse(read("ok")) == (Run(
        "", requests=50, seconds=0.228, requests_per_second=219.77,
        body_bytes=249, response_bytes=300.0, latency_ms={
            "min": 20, "mean": 21, "stdev": 0.4, "p50": 20, "p66": 21,
            "p75": 21, "p80": 21, "p90": 21, "p95": 21, "p98": 22, "p99": 22,
            "max": 22,
        },
    ), True)


@pytest.mark.parametrize(("name", "requests", "failed", "more"), [
    # ab prints no percentiles of a single request.
    ("one_request", 1, 0, {
        "latency_ms": {**dict.fromkeys(LATENCIES, 5), "stdev": 0.0},
    }),
    # Ended by its time.
    ("keep_alive", 242, 0, {"ended": True}),
    # Answers that are errors are no failures,
    ("non_2xx", 50, 0, {"non_2xx": 50}),
    # bodies of another length are.
    ("length_failures", 1, 49, {"requests_per_second": 1 / 0.231}),
    ("interrupted", 236, 0, {
        "ended": False, "requests_per_second": 237.48,
    }),
    ("interrupted_no_answer", 0, 0, {
        "ended": False, "requests_per_second": 0.0, "latency_ms": {},
        "body_bytes": None,
    }),
    # Each failed request counts once. ab prints: 50 complete, 21
    # failed (Receive 7, Length 7, Exceptions 7),
    ("reset_counted", 43, 7, {"requests_per_second": 43 / 0.096}),
    # 40 complete, 47 failed (Receive 8, Length 31, ...): the first,
    ("first_failed", 32, 8, {"body_bytes": None}),
    # 5000 complete, 49657 requests a second: it had died.
    ("server_died", 13, 4987, {"requests_per_second": 13 / 0.101}),
    ("macos_keep_alive", 1000, 0, {
        "ended": True, "requests_per_second": 96.04,
    }),
])
def test_what_counts(
    name: str, requests: int, failed: int, more: dict[str, object]
) -> None:
    run, ended = ab.parse(read(name))
    assert (run.requests, run.failed, run.error) == (requests, failed, None)
    known = {**vars(run), "ended": ended}
    for field, value in more.items():
        assert known[field] == pytest.approx(value)


@pytest.mark.parametrize(("name", "sentence", "requests"), [
    ("refused", "ab gave up: the server refused the connection", 0),
    ("reset", "ab gave up after 5 requests: a connection was reset", 5),
    ("timeout", "ab gave up: no response came before ab's timeout", 0),
    ("open_files", "ab gave up: ab reached the limit of open files", 0),
    ("usage_error", "ab does not accept its command: Cannot use concurrency "
     "level greater than total number of requests", 0),
    ("macos_reset", "ab gave up after 236 requests: a connection was reset",
     236),
    ("macos_no_ports", "ab gave up after 16374 requests: no local port was "
     "free for another connection", 16374),
])
def test_no_figures_and_why(name: str, sentence: str, requests: int) -> None:
    assert ab.parse(read(name)) == (Run("", requests, error=sentence), True)


def test_versions() -> None:
    assert ab.version(read("ok")) == ab.version(read("macos_reset")) == "2.3"
    assert ab.version("command not found") is None


def test_a_torn_output_raises_nothing() -> None:
    draw = random.Random("torn")
    for file in sorted(DATA.glob("*.txt")) * 30:
        text = file.read_text(encoding="utf-8")
        begin, end = sorted(draw.choices(range(len(text) + 1), k=2))
        noise = draw.randbytes(draw.randrange(20)).decode("latin-1")
        run, _ = ab.parse(text[:begin] + noise + text[end:])
        assert min(run.requests, run.failed) >= 0


@pytest.mark.parametrize("text", [
    "", "\n", "hello", "Complete requests: x", "\0\xff", "{}" * 9999
])
def test_text_of_something_else(text: str) -> None:
    assert ab.parse(text)[0].error == "the output is not ab's"
