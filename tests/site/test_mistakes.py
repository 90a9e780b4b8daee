"""What is wrong in a page or its data ends the build with a sentence.

One table for all fences, one for the numbers, one for results of others.
"""

import dataclasses
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.site import sample
from tests.site.conftest import Render
from tools.data import exchange, rules_seen
from tools.data.results import Results

BARS = "```bars\nsuite: classic\ntitle: T\nservers: 01, 02\n```"
TABLE = "```abtable\nsuite: classic\nservers: 01, 02\n```"
MISTAKES = {  # a fence -> a part of the sentence
    # The options of any fence.
    "bars\nsuite: classic": "the option 'title' is missing",
    "bars\nsuite: classic\ntitle: T\nservers: 99":
        "no server is called '99'; there are 01, 02, 03",
    "bars\nsuite: classic\ntitle: T\nclients: ten":
        "clients is a whole number, not 'ten'",
    "abtable\nsuite: classic\nservers: 01\nservers: 02":
        "the option 'servers' is there twice",
    "compare\nservers: all": "there is no option 'servers'",
    "source\nnonsense": "'nonsense' is not 'key: value'",
    # Results.
    "bars\nsuite: none\ntitle: T": "no suite is called 'none'",
    "bars\nsuite: classic\ntitle: T\nservers: 01\nmark: 02":
        "the marked server '02' is not shown",
    "bars\nsuite: classic\ntitle: T\nfigure: beauty":
        "no figure is called 'beauty'",
    "bars\nsuite: raw-new\ntitle: T\nfigure: share": "has no share of 01",
    "ablines\nserver: 06\nsuite: classic\nfrom: A\nto: B":
        "no line that begins with 'A'",
    # The labs.
    "frames\ntitle: T\npart: newest\nshape: three":
        "shape is one of one, two, not 'three'",
    "frames\ntitle: T\npart: newest\nshape: two\nshow: all":
        "show is one of chart, profile, not 'all'",
    "gil\nfigure: nonsense\ntitle: T": "no figure is called 'nonsense'",
    "database\nshow: circles\nsuite: db-sleep\ntitle: T":
        "show is one of lines, table, bars, not 'circles'",
    "inside\ntool: top":
        "tool is one of ss, ps, strace, py-spy, not 'top'",
    "hosts\ntitle: T\npart: death\nrows: a\nshow: pie":
        "show is one of bars, table, seconds, not 'pie'",
    "drawing\nname: loop": "no drawing 'loop'; there are accept",
    # Recordings.
    "race\nservers: 01, 02, 03\ntitle: T": "one server or two",
    # The contract and the wire.
    "conformance\nsection: beauty": "no section is 'beauty'",
    "breaks\nsketch: 99": "no server is called '99-sketch'",
    "wire\nexchange: nobody":
        "no exchange is called 'nobody'; there are bad",
    "wire\nexchange: get\nshow: both": "show is request or answer",
    # Exercises.
    "exercise\nid: 02.9": "there is no exercise '02.9'",
    "exercises\nstep: 9": "step 9 has no exercises",
    # Source files.
    "source\nfile: no.py\nname: serve": "there is no file no.py",
    "source\nfile: ../outside.py\nname: a": "not in this repository",
    "source\nfile: 02\nname: nobody": "there is no 'nobody' in it",
    "source\nfile: 02": "give one of name and whole",
    "stepdiff\nfrom: 02\nto: 02": "the two files do not differ",
    # Quizzes.
    "quiz\nquestion: q?\n- [x] a | b": "two answers",
    "quiz\nquestion: q?\n- [ ] a | b\n- [ ] c | d": "marked as right",
    "quiz\nquestion: q?\n- [x] a | b\n- [ ] c | ": "needs ' | ' and why",
    "quiz\nquestion: q?\n- [x] a | b\n- [ ] `c | d`": "needs ' | ' and why",
    "quiz\nquestion: q?\n- [x] a | b\n- [ ] a | d": "an answer is there",
}
NUMBERS = {
    "nonsense": "is not server.suite.figure",
    "99.classic.requests_per_second": "no point for 99 in classic",
    "01.classic@11.requests_per_second": "in classic with 11 clients",
    "01.classic.nothing": "no figure is called 'nothing'",
    "01.raw-new.share": "has no share",
    "machine.owner": "nothing about the machine is called 'owner'",
    "01.classic.failures / 01.classic.failures": "divides by zero",
    "race:02.middle": "the figures are first, last",
}
OF_OTHERS = {  # a file of results, or the mode of a run -> why
    "{": "is not a results file",
    "[]": "is not a results file",
    '{"schema": 2}': "has schema 2, this version reads 1",
    '{"schema": 1}': "is not a results file",
    "smoke": "is a run of smoke, which measures other things",
}
GET = "GET / HTTP/1.1\r\n\r\n"
OK = "HTTP/1.1 200 OK\r\n"
BYTES = [  # sent and received
    ("GET /", "", "no start line at byte 0"),
    ("GET / HTTP/1.1\r\nHost: a\r\n", "", "no header field at byte 25"),
    (f"{GET}body", "", "no start line at byte 18"),
    (GET, f"{OK}Content-Length: 2\r\n\r\na", "not as long as they say"),
    (GET.replace("GET", "HEAD"), f"{OK}Content-Length: 1\r\n\r\na",
     "not as long as they say"),
    ("GET / HTTP/1.1\r\nX-Strange: 1\r\n\r\n", "",
     "nothing explains request x-strange '1'"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "why"), [
    *((f"```{body}\n```", f"the fence '{body.partition(chr(10))[0]}' cannot "
       f"be made: .*{re.escape(why)}") for body, why in MISTAKES.items()),
    *((f"`#!num {number}`", f"cannot be made.*{re.escape(why)}")
      for number, why in NUMBERS.items()),
])  # fmt: skip
def test_what_cannot_be_made_ends_the_build(
    reference: Results, render: Render, text: str, why: str
) -> None:
    with pytest.raises(Exception, match=f"(?s){why}"):
        render(text)


@pytest.mark.parametrize("content", OF_OTHERS)
def test_results_that_cannot_be_used(
    reference: Results, render: Render, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, content: str,
) -> None:
    file = tmp_path / "results.json"
    monkeypatch.setenv("SEVEN_BESIDE", str(file))
    with pytest.raises(Exception, match=r"results\.json cannot be read"):
        render(BARS)
    if content.isalpha():
        sample.of([], content).save(tmp_path)
    else:
        file.write_text(content)
    with pytest.raises(Exception, match=rf"\.json {OF_OTHERS[content]}"):
        render(BARS)


def test_a_failed_point_of_the_reference(
    reference: Results, change: Callable[[Results], None], render: Render
) -> None:
    point = reference.find("02", "classic")
    assert point
    point.runs = [sample.run("02", 10, 1.0)]
    point.runs[0].error = point.reason = "it died"
    point.status = "failed"
    change(reference)
    for text in (BARS, TABLE, "`#!num 02.classic.p50`"):
        with pytest.raises(Exception, match="it died"):
            render(text)


def test_what_others_wrote_is_text(
    reference: Results, render: Render, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nothing in a file becomes a part of the page that does something."""
    evil = "</code></svg><img src=x onerror='alert()'>\"'&"
    made = sample.results(1.0, tuple(sample.LOADS))
    made.command = made.started = made.machine.cpu = evil
    for point in made.points[::2]:
        point.runs, point.status, point.reason = [], "failed", evil
    made.save(tmp_path)
    monkeypatch.setenv("SEVEN_BESIDE", str(tmp_path))
    sweep = "```sweep\ntitle: T\nservers: 06\n```"
    html = render("\n\n".join((BARS, TABLE, sweep, "```machine\n```")))
    assert "yours &lt;/code" in html and "<img" not in html


@pytest.mark.parametrize(("sent", "received", "why"), BYTES)
def test_captured_bytes_that_cannot_be_shown(
    sent: str, received: str, why: str, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch, render: Render,
) -> None:
    good = exchange.load(exchange.REFERENCE / "get.json")
    dataclasses.replace(
        good, sent=sent.encode(), received=received.encode()
    ).save(tmp_path)
    monkeypatch.setattr(exchange, "REFERENCE", tmp_path)
    with pytest.raises(Exception, match=why):
        render("```wire\nexchange: get\n```")


def test_a_run_of_the_tests_that_cannot_be_shown(
    render: Render, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "seen.json"
    file.write_text('{"schema": 1, "rules": 3}')
    monkeypatch.setattr(rules_seen, "FILE", file)
    with pytest.raises(Exception, match="is not a recorded test run"):
        render("```conformance\nsection: answering\n```")
