"""Questions with answers: the fence, its links, and what a browser does."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from playwright.sync_api import Page

from tests.site.browsing import (
    Opened,
    bad_colours,
    faults,
    needs_browser,
    visit,
)
from tests.site.conftest import Render, small
from tools.data.results import Results

ONE = """\
question: How *long* do three
  `curl` take?
- [ ] One `a | b` second | Each would need a **thread**, see
  [there](other.md#there).
- [x] Three seconds | One after the other.
- [ ] For ever | Each one ends.
because: It serves `#!num 01.classic.requests_per_second` a second."""
SEVERAL = """\
question: Which block?
title: Check yourself
- [x] accept | It waits for a client.
- [ ] close | It returns at once.
- [x] recv | It waits for bytes."""


def fenced(body: str) -> str:
    return f"```quiz\n{body}\n```\n"


def test_a_question_with_its_answers(
    reference: Results, render: Render
) -> None:
    html = render(fenced(ONE))
    assert html.count('type="radio"') == 3
    assert "How <em>long</em> do three <code>curl</code> take?" in html
    assert "One <code>a | b</code> second</label>" in html
    assert html.count("</span> No.</strong>") == 2
    assert "</span> Right.</strong> One after the other." in html
    assert re.search("It serves <data[^>]*>10.0</data> a second", html)
    assert "checked" not in html
    order = [html.index(w) for w in ("Three", "One after", "For ever")]
    assert order == sorted(order)  # each reason follows its answer
    # Whoever searches finds the question, not the answer.
    hidden = html.index("data-search-exclude")
    assert html.index("do three") < hidden < html.index("One <code>")


def test_several_right_answers_are_boxes(render: Render) -> None:
    html = render(fenced(SEVERAL))
    assert html.count('type="checkbox"') == 3
    assert "Check yourself" in html
    assert "Choose every answer" in html


def test_it_stands_where_any_fence_can(render: Render) -> None:
    indented = "\n".join(f"    {x}" for x in fenced(SEVERAL).splitlines())
    html = render(f'Before.\n\n=== "Tab"\n\n{indented}\n\nAfter `x`.\n')
    assert "It waits for bytes." in html
    assert html.endswith("<p>After <code>x</code>.</p>")
    assert "data-seven-prose" not in html


def build(folder: Path, *bodies: str) -> subprocess.CompletedProcess[str]:
    """A site of two pages, the first with these quizzes."""
    page = "\n".join(fenced(body) for body in bodies)
    return small(
        folder, index=f"# One\n\n{page}\nEnd.\n", other="# Two\n\n## There\n"
    )


def test_a_dead_link_fails_the_strict_build(tmp_path: Path) -> None:
    links = "[page](nowhere.md), [anchor](other.md#not)"
    done = build(tmp_path, ONE.replace("[there](other.md#there)", links))
    assert done.returncode != 0
    assert "nowhere.md" in done.stderr
    assert "#not" in done.stderr


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("quiz")
    done = build(folder, ONE, SEVERAL)
    assert done.returncode == 0, done.stderr
    return folder / "site" / "index.html"


def test_links_are_rewritten_and_only_the_question_is_found(
    asked: Path,
) -> None:
    assert 'href="other.html#there"' in asked.read_text(encoding="utf-8")
    index = asked.parent / "search" / "search_index.json"
    found = json.loads(index.read_text(encoding="utf-8"))["docs"][0]["text"]
    assert "do three" in found
    assert "Which block?" in found
    assert "End." in found
    for hidden in ("Three seconds", "Right", "recv", "waits", "It serves"):
        assert hidden not in found


def said(page: Page) -> list[str]:
    """What the live regions hold for a screen reader."""
    texts = page.get_by_role("status").all_inner_texts()
    return [text.strip() for text in texts if text.strip()]


@needs_browser
@pytest.mark.thorough
def test_choosing_says_why_without_a_script(
    opened: Opened, asked: Path
) -> None:
    page = opened("light", width=375, script=False)
    page.goto(asked.as_uri())
    assert said(page) == []
    assert not page.get_by_text("Start over").first.is_visible()
    page.get_by_label("Three seconds").check()
    right, because = said(page)
    assert right == "✓ Right. One after the other."
    assert because.startswith("It serves ")
    page.get_by_text("For ever").click()  # the words are as good
    assert said(page) == ["✗ No. Each one ends.", because]
    # The other question has not moved; its answers add up.
    page.get_by_label("close").check()
    page.get_by_label("recv").check()
    assert said(page)[2:] == [
        "✗ No. It returns at once.", "✓ Right. It waits for bytes.",
    ]
    page.get_by_text("Start over").first.click()
    assert len(said(page)) == 2


@needs_browser
@pytest.mark.thorough
def test_keys_choose_and_enter_sends_nothing(
    opened: Opened, asked: Path
) -> None:
    page = opened("light", script=False)
    page.goto(asked.as_uri())
    page.get_by_label("One").focus()
    page.keyboard.press("Space")
    assert said(page)[0].startswith("✗ No. Each would need a thread")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert said(page)[0] == "✓ Right. One after the other."
    assert page.url == asked.as_uri()


@needs_browser
@pytest.mark.thorough
def test_an_answered_question_is_accessible_and_on_paper_all_are(
    opened: Opened, asked: Path
) -> None:
    page = opened("light")
    visit(page, asked)
    page.emulate_media(media="print")
    assert len(said(page)) == 3 + 1 + 3
    assert not page.get_by_text("Start over").first.is_visible()
    page.emulate_media(media="screen")
    for box in page.locator(".seven-quiz input").all():
        box.check()
    assert not faults(page)
    page.get_by_title("Switch to dark").click()
    assert not bad_colours(page)
