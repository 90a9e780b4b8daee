"""The lab "Look inside a running server" on its page."""

import pytest

from tests.site.conftest import Render
from tests.site.sample import Committed
from tools.data.results import Point, Run

FENCE = "```inside\ntool: ss\ncaption: Six & more.\n```"


@pytest.fixture(autouse=True)
def record(committed: Committed) -> None:
    committed.save("labs-inside", *(
        Point(name, "labs-inside", 6, 1.0, runs=[
            Run("command", texts={
                "ss": f"$ ss <{name}>\nLISTEN", "ps": "PID",
            })
        ])
        for name in ("02", "06")
    ))


def test_the_servers_stand_below_one_another(render: Render) -> None:
    html = render(FENCE)
    assert html.count("<pre") == 2 and 'class="grid"' not in html
    first, second = html.split("<pre")[1:]
    assert "$ ss &lt;02&gt;\nLISTEN</code>" in first
    assert "<strong>06</strong> await" in first  # above the second
    assert "&lt;06&gt;" in second and "Six &amp; more." in second


def test_what_is_narrow_stands_beside(render: Render) -> None:
    html = render(FENCE.replace("ss", "ps"))
    assert html.count("<pre") == 2 and html.count('class="grid"') == 1


def test_a_tool_that_was_not_there_is_said(render: Render) -> None:
    html = render(FENCE.replace("ss", "py-spy"))
    assert "py-spy was not on the machine." in html and "<pre" not in html


def test_another_tool_is_a_mistake(render: Render) -> None:
    with pytest.raises(Exception, match="the lab uses ss, ps, strace, py-spy"):
        render(FENCE.replace("ss", "top"))
