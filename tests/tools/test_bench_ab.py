"""tools.bench.ab: command lines, and every kind of output."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tools.bench import ab

DATA = Path(__file__).parent / "data" / "ab"
FILES = sorted(DATA.glob("*.txt"))
URL = "http://127.0.0.1:8000/"


def read(name: str) -> str:
    return (DATA / f"{name}.txt").read_text(encoding="utf-8")


def test_command_has_the_limit_before_the_number() -> None:
    load = ab.Load(10, 1_000_000, seconds=2, keep_alive=True)
    words = load.command(URL, ("ab",))
    assert " ".join(words) == f"ab -k -r -t 2 -n 1000000 -c 10 {URL}"


def test_command_of_the_classic_run() -> None:
    words = ab.Load(10, 1000, go_on=False).command(URL, ("ab",))
    assert " ".join(words) == f"ab -n 1000 -c 10 {URL}"


def test_a_good_run() -> None:
    report = ab.parse(read("ok"))
    assert report == ab.Report(
        requests=50, failed=0, non_2xx=0, seconds=0.228, per_second=219.77,
        kept_alive=0, body_bytes=249, response_bytes=300.0, finished=True,
        latency_ms={
            "min": 20, "mean": 21, "p50": 20, "p66": 21, "p75": 21,
            "p80": 21, "p90": 21, "p95": 21, "p98": 22, "p99": 22, "max": 22,
        },
    )


def test_one_request_has_no_percentiles() -> None:
    latency = ab.parse(read("one_request")).latency_ms
    assert set(latency.values()) == {5}
    assert set(latency) == set(ab.parse(read("ok")).latency_ms)


def test_a_run_ended_by_its_time_is_finished() -> None:
    report = ab.parse(read("keep_alive"))
    assert report.finished
    assert (report.requests, report.kept_alive) == (242, 242)


def test_answers_that_are_errors_are_no_failures() -> None:
    report = ab.parse(read("non_2xx"))
    assert (report.requests, report.failed, report.non_2xx) == (50, 0, 50)


def test_bodies_of_another_length_are_failures() -> None:
    report = ab.parse(read("length_failures"))
    assert (report.requests, report.failed) == (1, 49)
    assert report.per_second == pytest.approx(1 / 0.231)


def test_an_interrupted_run_is_not_finished_and_keeps_its_figures() -> None:
    report = ab.parse(read("interrupted"))
    assert not report.finished
    assert (report.requests, report.per_second) == (236, 237.48)


def test_an_interrupted_run_without_answers() -> None:
    report = ab.parse(read("interrupted_no_answer"))
    assert not report.finished
    assert (report.requests, report.per_second) == (0, 0.0)
    assert report.latency_ms == {}
    assert report.body_bytes is None


def test_each_failed_request_counts_once() -> None:
    # ab prints: 50 complete, 21 failed (Receive 7, Length 7, Exceptions 7)
    report = ab.parse(read("reset_counted"))
    assert (report.requests, report.failed) == (43, 7)
    assert report.per_second == pytest.approx(43 / 0.096)


def test_answers_count_even_if_the_first_request_failed() -> None:
    # ab prints: 40 complete, 47 failed (Receive 8, Length 31, ...)
    report = ab.parse(read("first_failed"))
    assert (report.requests, report.failed) == (32, 8)
    assert report.body_bytes is None


def test_a_server_that_died_is_not_fast() -> None:
    # ab prints: 5000 complete, 49657 requests a second
    report = ab.parse(read("server_died"))
    assert (report.requests, report.failed) == (13, 4987)
    assert report.per_second < 200


@pytest.mark.parametrize(
    ("name", "sentence", "requests"),
    [
        ("refused", "ab gave up: the server refused the connection", 0),
        ("reset", "ab gave up after 5 requests: a connection was reset", 5),
        ("timeout", "ab gave up: no answer came before ab's timeout", 0),
        ("open_files", "ab gave up: ab reached the limit of open files", 0),
        (
            "usage_error",
            "ab does not accept its command: Cannot use concurrency level "
            "greater than total number of requests",
            0,
        ),
        (
            "macos_reset",
            "ab gave up after 236 requests: a connection was reset",
            236,
        ),
        (
            "macos_no_ports",
            "ab gave up after 16374 requests: no local port was free for "
            "another connection",
            16374,
        ),
    ],
)
def test_no_figures_and_why(name: str, sentence: str, requests: int) -> None:
    with pytest.raises(ab.AbError) as caught:
        ab.parse(read(name))
    assert str(caught.value) == sentence
    assert caught.value.requests == requests


def test_the_format_of_macos() -> None:
    report = ab.parse(read("macos_keep_alive"))
    assert (report.requests, report.kept_alive) == (1000, 1000)
    assert report.per_second == 96.04
    assert report.latency_ms["p99"] == 110
    assert report.finished


def test_versions() -> None:
    assert ab.version(read("ok")) == "2.3"
    assert ab.version(read("macos_reset")) == "2.3"
    assert ab.version("command not found") is None


@pytest.mark.parametrize("text", ["", "\n", "hello", "Complete requests: x"])
def test_text_of_something_else(text: str) -> None:
    with pytest.raises(ab.AbError, match="not ab's"):
        ab.parse(text)


@given(st.sampled_from(FILES), st.data())
def test_a_torn_output_raises_nothing_but_the_declared_error(
    file: Path, data: st.DataObject
) -> None:
    text = file.read_text(encoding="utf-8")
    begin = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(begin, len(text)))
    noise = data.draw(st.text(max_size=20))
    try:
        report = ab.parse(text[:begin] + noise + text[end:])
    except ab.AbError as error:
        assert str(error)
    else:
        assert report.requests >= 0
        assert report.failed >= 0


@given(st.text())
def test_any_text_raises_nothing_but_the_declared_error(text: str) -> None:
    with pytest.raises(ab.AbError):
        ab.parse(text)
