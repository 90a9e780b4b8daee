"""Exercises, from the very task.md that a student gets.

Fence ``exercise``::

    id: 02.1

shows one: minutes, commands, the task, its hints folded. The heading
above it stands in the page. Fence ``exercises``::

    step: 2

lists those of a step, or with ``step: all`` every one, with minutes.
"""

import re
from html import escape
from typing import Any

import markdown  # type: ignore[import-untyped]

from tools.learn import exercises as known
from tools.learn.exercises import Exercise, ExerciseError
from tools.servers import ROOT
from tools.site import options
from tools.site.errors import SiteError
from tools.site.fence_call import code, fence, uid
from tools.site.prose import line as prose

EXTENSIONS = ("tables", "pymdownx.superfences", "pymdownx.highlight")
CONFIGS = {"pymdownx.highlight": {"pygments_lang_class": True}}
PAGES = "exercises"  # the folder of the pages in docs/


def page_of(step: int) -> str:
    """The page of a step's exercises, from docs/, without its suffix."""
    (folder,) = ROOT.glob(f"{step:02}_*")
    return f"{PAGES}/{folder.name}"


def anchor(exercise: Exercise) -> str:
    """The id of its heading."""
    return exercise.name.replace("_", "-")


def link(exercise: Exercise, html: str) -> str:
    """A link to it from any page in a folder of docs/."""
    href = f"../{page_of(exercise.step)}.html#{anchor(exercise)}"
    return f'<a href="{escape(href)}">{html}</a>'


def _text(text: str, where: str) -> str:
    """Markdown as HTML; its headings stay below those of the page."""
    made = markdown.Markdown(
        extensions=[*EXTENSIONS], extension_configs=CONFIGS
    )
    html: str = made.convert(text)
    if re.search("<h[12]", html):
        raise SiteError(f"{where} has a heading in its text")
    return html


def _exercise(given: dict[str, str], md: Any) -> str:
    """One exercise: what to do, and its hints."""
    try:
        found = known.by_id(given["id"])
    except ExerciseError as error:
        raise SiteError(str(error)) from None
    commands = (
        f"./learn.sh start {found.id}   # copies it to my/{found.id}/\n"
        f"./learn.sh check {found.id}   # or watch: again when you save\n"
    )
    total = len(found.hints)
    hints = "".join(
        f'<details class="seven-hint"><summary>Hint {number} of {total}'
        f"</summary>{_text(hint, f'{found.id} hint')}</details>"
        for number, hint in enumerate(found.hints, 1)
    )
    page, mark, section = found.read.partition("#")
    href = f"../{page.removesuffix('.md')}.html{mark}{section}"
    return (
        f'<section class="seven-exercise" id="{uid(md, "exercise", found.id)}"'
        f' aria-label="Exercise {found.id}">'
        f'<p class="seven-exercise__facts">About {found.minutes} minutes. '
        f'Before it: <a href="{escape(href)}">what to read</a>.</p>'
        f"{code(md, commands, 'text', '')}"
        f"{_text(found.task, found.id)}{hints}</section>"
    )


def _exercises(given: dict[str, str], md: Any) -> str:
    """A table of exercises."""
    step = None if given["step"] == "all" else options.whole(given, "step")
    chosen = [e for e in known.everything() if step in (None, e.step)]
    if not chosen:
        raise SiteError(f"step {given['step']} has no exercises")
    rows = "".join(
        f"<tr><td>{e.id}</td><td>{link(e, prose(md, e.title))}</td>"
        f'<td class="seven-number">{e.minutes}</td></tr>'
        for e in chosen
    )
    total = sum(e.minutes for e in chosen)
    return (
        '<div class="seven-exercises"><table><thead><tr><th>ID</th>'
        '<th>Exercise</th><th class="seven-number">Minutes</th></tr></thead>'
        f"<tbody>{rows}</tbody><tfoot><tr><td></td><td>{len(chosen)} "
        f'exercises</td><td class="seven-number">{total}</td></tr></tfoot>'
        "</table></div>"
    )


exercise = fence(_exercise, "id")
exercises = fence(_exercises, "step")
