"""The fences of the labs, drawn from the runs in golden/labs."""

import re

import pytest

from labs.hosts import experiments
from tests.site.conftest import Render
from tests.site.test_golden import GOLDEN, compare
from tools.servers import ROOT
from tools.site import data


@pytest.fixture(autouse=True)
def fixed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Data that no measurement changes."""
    monkeypatch.setattr(data, "DATA", GOLDEN / "labs")


def test_golden(render: Render, pytestconfig: pytest.Config) -> None:
    html = render((GOLDEN / "labs.md").read_text("utf-8"))
    compare("labs", html, pytestconfig)


FRAMES = "frames\ntitle: T\nshape: {}\npart: {}"
PROFILE = "frames\ntitle: T\nshape: one\nshow: profile\npart: {}"
BARS = "database\ntitle: T\nshow: bars\nsuite: db-sleep\n{}"
HOSTS = "hosts\ntitle: T\nfigure: failed\npart: {}\nrows: {}"
SECONDS = "hosts\ntitle: T\nshow: seconds\npart: {}\nrows: {}"


@pytest.mark.parametrize(("fence", "why"), [
    (FRAMES.format("two", "last"), "nothing in 'last, two processes'"),
    (FRAMES.format("two", "newest\nvariants: sand"), "of sand"),
    (PROFILE.format("oldest"), "in 'oldest, one process'"),
    (PROFILE.format("newest\nvariants: sock"), "no 'sock'"),
    ("gil\ntitle: T\nfigure: answer_ms", "no answer_ms"),
    (BARS.format("clients: 7"), "no points in db-sleep"),
    (BARS.format("figure: gap_seconds"), "has no gap_seconds"),
    (HOSTS.format("death", "x = 06[often]"), "0 points are 06[often]"),
    (HOSTS.format("slow", "x = 06[often]"), "points in hosts-slow"),
    (SECONDS.format("death", "x = 06[kill: often]"),
     "no seconds of 06[kill: often]: measure again"),
    (SECONDS.format("death", "x = 06[cable: <rare>]"),
     "no seconds of 06[cable: <rare>]: no <cable>"),
])
def test_what_was_not_measured_ends_the_build(
    render: Render, fence: str, why: str
) -> None:
    with pytest.raises(Exception, match=re.escape(why)):
        render(f"```{fence}\n```")


def test_the_page_names_the_settings_of_the_storm() -> None:
    page = (ROOT / "docs" / "labs" / "hosts.md").read_text("utf-8")
    text = " ".join(page.split())
    case = experiments.STORM[1]
    (front,) = case.fronts
    (usual, _), (spike, during), (_, after) = front.phases
    possible = sum(experiments.THREADS / delay for delay in case.delays)
    assert f"can serve {possible:g} requests per second" in text
    assert f"Normally {usual:g} requests per second arrive; " in text
    assert f"for {during:g} seconds it is {spike:g}." in text
    assert f"{after:g} seconds after the load was over" in text
    assert (front.timeout, front.tries) == (1, 3)
