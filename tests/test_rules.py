"""The rules and the tests belong together."""

import re
from pathlib import Path

import pytest

from tests.solutions import COMMON, TOUCHED, solutions
from tools.data import rules_seen
from tools.data.made import everything
from tools.data.rules_seen import EXPECTED, PASSED, SKIPPED, place, sides
from tools.rules import REQUIREMENTS, RULES
from tools.servers import LESSONS, SERVERS, YES, Server

SOURCES = "\n".join(
    path.read_text() for path in Path(__file__).parent.glob("test_*.py")
)


@pytest.mark.parametrize("name", RULES)
def test_every_rule_has_a_test(name: str) -> None:
    assert re.search(rf'\("{name}",|@rule\("{name}"', SOURCES), name


@pytest.mark.parametrize("name", LESSONS)
def test_every_lesson_has_a_test(name: str) -> None:
    assert f'@lesson("{name}")' in SOURCES


@pytest.mark.parametrize("each", SERVERS, ids=lambda each: each.name)
def test_exemptions_are_rules_with_reasons(each: Server) -> None:
    for name, reason in each.exempt:
        assert name in RULES, f"{each.name} is exempt from no rule: {name}"
        assert len(reason) > 10, f"{name}: {reason!r}"
    assert len(each.exempt) == len(each.exemptions), "named twice"


def known(run: rules_seen.Conformance) -> list[Server]:
    """Our servers but for those that are newer than a recorded run."""
    cells = {place for row in run.rules.values() for place in row}
    return [each for each in SERVERS if each.name in cells]


@pytest.mark.parametrize("rule", RULES)
def test_the_record_of_a_rule_says_what_the_list_says(rule: str) -> None:
    """Which servers keep it. No? ./test.sh --conformance FILE."""
    run = rules_seen.load(rules_seen.FILE)
    cells, servers = run.rules[rule], known(run)
    steps = [each.step for each in servers if each.name in cells]
    assert set(cells) == {
        each.name for each in servers if min(steps) <= each.step <= max(steps)
    }
    python = [int(part) for part in re.findall(r"\d+", run.machine.python)]
    for server in servers:
        if server.name in cells:
            exempt = server.is_exempt(rule, python)
            outcome = EXPECTED if exempt else PASSED
            assert cells[server.name].outcome in (outcome, SKIPPED), server


def test_the_record_of_the_lessons_is_their_table() -> None:
    run = rules_seen.load(rules_seen.FILE)
    assert {
        lesson: {where: cell.outcome for where, cell in row.items()}
        for lesson, row in run.lessons.items()
    } == {
        lesson: {
            place(server.name, side): PASSED if does == YES else EXPECTED
            for server in known(run)
            for side, does in sides(lesson, server.lessons[lesson]).items()
        }
        for lesson in LESSONS
    }
    (made,) = (each for each in everything() if each.name == "conformance")
    assert run.command.replace(" --all", "") == made.command


def test_rules_have_text_and_place() -> None:
    for name, each in RULES.items():
        assert re.fullmatch("[a-z0-9-]+", name)
        assert each.text and each.where, name


def test_each_line_of_the_rfcs_is_proved_or_not_for_us() -> None:
    for each in REQUIREMENTS:
        assert each.level in ("MUST", "MUST NOT", "SHOULD", "SHOULD NOT")
        assert set(each.rules) <= set(RULES), each
        assert bool(each.rules) != bool(each.why), each
        assert not each.but or each.level == "SHOULD", "a MUST has no but"
    lines = [(each.rfc, each.section, each.text) for each in REQUIREMENTS]
    assert len(set(lines)) == len(lines)
    places = [
        (rfc, [int(n) for n in section.split()[0].split(".")])
        for rfc, section, _ in lines
    ]
    assert places == sorted(places)


def test_solutions_name_exercises_rules_and_lessons() -> None:
    names = {each.name for each in solutions()}
    assert set(TOUCHED) <= names or not names  # none in a handout
    for name in {*COMMON, *(n for row in TOUCHED.values() for n in row)}:
        assert name in RULES or name in LESSONS, name
