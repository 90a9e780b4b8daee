"""Marks of the tests: the rule or the lesson that one proves.

And short names for what pytest gives to many of them.
"""

from collections.abc import Sequence
from typing import Any

import pytest

from tools.rules import RULES
from tools.servers import LESSONS, STEPS

Patch = pytest.MonkeyPatch
Said = pytest.CaptureFixture[str]


def rule(name: str, steps: range | None = None) -> pytest.MarkDecorator:
    """This test proves a rule of tools/rules.py, for servers of steps."""
    assert name in RULES, name
    return pytest.mark.rule(name, steps or STEPS)


def lesson(name: str) -> pytest.MarkDecorator:
    """This test proves a row of the table of lessons.

    It takes a ``side``: "" where the table says yes or no, else "below"
    and "above" the size of the pool.
    """
    assert name in LESSONS, name
    return pytest.mark.lesson(name)


# Waits for long, so it begins early; meanwhile others run.
slow = pytest.mark.slow

# web.py decides it, the same bytes in every folder: test_http_section.py
# proves it in process. Over sockets with 01, 02 and 07; the record of the
# rules (--conformance) with every server.
in_web = pytest.mark.in_web


def by_rule(
    table: Sequence[tuple[Any, ...]], steps: range | None = None
) -> pytest.MarkDecorator:
    """A test for each rule in the first column of a table: its name."""
    names = dict.fromkeys(row[0] for row in table)
    return pytest.mark.parametrize("name", [
        pytest.param(name, marks=rule(name, steps), id=name) for name in names
    ])
