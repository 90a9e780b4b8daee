"""The exercises on the site: all of them, from the students' own files."""

import re
from pathlib import Path

from tests.site.conftest import Render
from tools.learn import exercises
from tools.servers import ROOT
from tools.site.exercise import anchor, page_of

HEADING = re.compile(
    r"^## (\d\d\.\d) (.+) \{#(.+)\}\n\n```exercise\nid: \1\n```$",
    re.MULTILINE,
)


def test_each_stands_once_under_its_title() -> None:
    found = []
    for step in range(1, 8):
        path = ROOT / "docs" / f"{page_of(step)}.md"
        text = path.read_text()
        entries = HEADING.findall(text)
        assert len(entries) == text.count("\n## "), path
        found += [(page_of(step), *entry) for entry in entries]
    assert found == [
        (page_of(e.step), e.id, e.title, anchor(e))
        for e in exercises.everything()
    ]


def test_task_and_folded_hints(render: Render) -> None:
    html = render("```exercise\nid: 02.1\n```")
    exercise = exercises.by_id("02.1")
    assert "./learn.sh start 02.1" in re.sub("<[^>]+>", "", html)
    assert f"About {exercise.minutes} minutes" in html
    assert html.count("<details") == len(exercise.hints)
    assert "<details open" not in html
    words = re.sub("<[^>]+>", " ", html)
    for text in (exercise.task, *exercise.hints):
        assert text.split("`")[0].split("\n")[0].strip()[:40] in words


def test_no_solution_is_on_the_site(site: Path) -> None:
    text = (site / "exercises" / "02_sockets.html").read_text()
    assert "received += data" not in text


def test_every_step_lists_its_exercises(site: Path) -> None:
    for step in range(1, 8):
        name = page_of(step).partition("/")[2]
        html = (site / "steps" / f"{name}.html").read_text()
        for exercise in exercises.everything():
            link = f'"../{page_of(step)}.html#{anchor(exercise)}"'
            assert (link in html) == (exercise.step == step)
