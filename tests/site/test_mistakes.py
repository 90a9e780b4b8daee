"""What is wrong in a page ends the build with a sentence; ids are unique.

One table for all fences and numbers. What depends on the data that a test
makes stands in the file of its fence.
"""

import re

import pytest

from tests.site.conftest import Render
from tools.data.results import Results

MISTAKES = {  # a fence -> a part of the sentence
    # The options of any fence.
    "bars\nsuite: classic": "the option 'title' is missing",
    "bars\nsuite: classic\ntitle: T\nservers: 08":
        "no server is called '08'; there are 01, 02, 03",
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
    "abtable\nsuite: classic\nservers: 01\ncolumns: beauty":
        "no figure is called 'beauty'",
    "ablines\nserver: 06\nsuite: classic\nfrom: A\nto: B":
        "no line that begins with 'A'",
    "hold\ncaption: c": "the option 'title' is missing",
    "hold\ntitle: x\nlevels: 5": "there is no option 'levels'",
    # The labs.
    "frames\npart: newest\nshape: two": "the option 'title' is missing",
    "frames\ntitle: T\npart: newest\nshape: three":
        "shape is one or two, not 'three'",
    "frames\ntitle: T\npart: newest\nshape: two\nshow: all":
        "show is chart or profile, not 'all'",
    "gil\nfigure: nonsense\ntitle: T": "no figure is called 'nonsense'",
    "gil\nfigure: gil\ntitle: T\ncolor: red":
        "there is no option 'color'",
    "database\nshow: circles\nsuite: db-sleep\ntitle: T":
        "show is one of lines, table, bars, not 'circles'",
    "inside\ntool: top": "the lab uses ss, ps, strace, py-spy, not 'top'",
    "hosts\ntitle: T\npart: death\nrows: a\nshow: pie":
        "show is bars, table, seconds, texts, not 'pie'",
    # Recordings.
    "race\nservers: 01, 02, 03\ntitle: T": "one server or two",
    "race\nservers: 01, 01\ntitle: T": "one server or two",
    # The contract and the wire.
    "conformance\nsection: beauty": "no section is 'beauty'",
    "breaks\nsketch: 08": "no server is called '08-sketch'",
    "wire\nexchange: nobody":
        "no exchange is called 'nobody'; there are bad",
    "wire\nexchange: ../get": "no exchange is called",
    "wire\nexchange: get\nshow: both": "show is request or answer",
    # Exercises.
    "exercise\nid: 02.9": "there is no exercise '02.9'",
    "exercises\nstep: 9": "step 9 has no exercises",
    # Source files.
    "source\nfile: no.py\nname: serve": "there is no file no.py",
    "source\nfile: ../outside.py\nname: a": "not in this repository",
    "source\nfile: 02\nname: nobody": "there is no 'nobody' in it",
    "source\nfile: 02": "give one of name and whole",
    "source\nfile: 02\nname: serve\nwhole: yes": "give one of name",
    "source\nfile: 02\nwhole: no": "give one of name",
    "stepdiff\nfrom: 02\nto: 02": "the two files do not differ",
    # Quizzes.
    "quiz\nquestion: q?\n- [x] a | b": "two answers",
    "quiz\nquestion: q?\n- [ ] a | b\n- [ ] c | d": "marked as right",
    "quiz\nquestion: q?\n- [x] a | b\n- [ ] c": "needs ' | ' and why",
    "quiz\nquestion: q?\n- [x] a | b\n- [ ] c | ": "needs ' | ' and why",
    "quiz\nquestion: q?\n- [x] a | b\n- [ ] `c | d`": "needs ' | ' and why",
    "quiz\nquestion: q?\n- [x] a | b\n- [ ] | d": "needs ' | ' and why",
    "quiz\nquestion: q?\n- [x] a | b\n- [ ] a | d": "an answer is there",
    "quiz\nquestion: q?\n- [x] a | b\n- [y] c | d": "is not 'key: value'",
}
NUMBERS = {
    "nonsense": "is not server.suite.figure",
    "99.classic.requests_per_second": "no point for 99 in classic",
    "01.nothing.requests_per_second": "no suite is called 'nothing'",
    "01.classic@11.requests_per_second": "in classic with 11 clients",
    "01.classic.nothing": "no figure is called 'nothing'",
    "01.raw-new.share": "has no share",
    "machine.owner": "nothing about the machine is called 'owner'",
    "01.classic.failures / 01.classic.failures": "divides by zero",
    "race:02.middle": "the figures are first, last",
    "race:02": "the figures are first, last",
    "race:08.last": "no server is called '08'",
}


@pytest.mark.parametrize("body", MISTAKES)
def test_a_fence_that_cannot_be_made_ends_the_build(
    reference: Results, render: Render, body: str
) -> None:
    name = body.partition("\n")[0]
    why = f"(?s)the fence '{name}' cannot .*{re.escape(MISTAKES[body])}"
    with pytest.raises(Exception, match=why):
        render(f"```{body}\n```")


@pytest.mark.parametrize("number", NUMBERS)
def test_a_number_that_is_not_there_ends_the_build(
    reference: Results, render: Render, number: str
) -> None:
    why = f"cannot be made.*{re.escape(NUMBERS[number])}"
    with pytest.raises(Exception, match=why):
        render(f"`#!num {number}`")


PAGE = """
bars\nsuite: classic\ntitle: T\nservers: 01, 02\nmark: 02

sweep\ntitle: T\nservers: steps

abtable\nsuite: classic\nservers: 01, 02

race\nservers: 02\ntitle: T

conformance\nsection: refusing

lessons

hold\ntitle: T

wire\nexchange: get

quiz\nquestion: q?\n- [x] a | b\n- [ ] c | d

quiz\nquestion: r?\n- [x] a | b\n- [x] c | d
"""


def test_ids_are_once_on_a_page_and_the_same_in_every_build(
    reference: Results, render: Render
) -> None:
    fences = [f"```{body}\n```" for body in PAGE.strip().split("\n\n")]
    page = "\n\n".join([*fences, *fences])
    html = render(page)
    ids = re.findall(r' id="([^"]+)"', html)
    assert len(ids) == len(set(ids))
    assert {"race-02", "race-02-2", "wire-get", "rule-nul"} < set(ids)
    assert "bars-classic-requests-per-second-02-10" in ids
    assert set(re.findall(r' for="([^"]+)"', html)) < set(ids)
    assert set(re.findall(r' href="#([^"]+)"', html)) < set(ids)
    groups = re.findall(r' name="(quiz[^"]+)"', html)
    assert len(set(groups)) == 4
    assert html == render(page)
