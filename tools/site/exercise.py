"""Exercises, from the very task.md that a student gets.

Fence ``exercise``::

    id: 02.1

shows one: minutes, commands, the task, its hints folded. The heading
above it stands in the page. Fence ``exercises``::

    step: 2

lists those of a step, or with ``step: all`` every one, with minutes.
"""

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


def _text(md: Any, text: str, *where: str) -> str:
    """Markdown as HTML; its headings stay below those of the page."""
    made = markdown.Markdown(
        extensions=[*EXTENSIONS], extension_configs=CONFIGS
    )
    html: str = made.convert(text)
    if "<h1" in html or "<h2" in html:
        raise SiteError(f"{' '.join(where)} has a heading in its text")
    return html


def _exercise(text: str, md: Any) -> str:
    """One exercise: what to do, and its hints."""
    given = options.parse(text, required=["id"])
    try:
        found = known.by_id(given["id"])
    except ExerciseError as error:
        raise SiteError(str(error)) from None
    commands = (
        f"./learn.sh start {found.id}   # copies it to my/{found.id}/\n"
        f"./learn.sh check {found.id}   # or watch: again when you save\n"
    )
    ident = uid(md, "exercise", found.id)
    total = len(found.hints)
    hints = "".join(
        f'<details class="seven-hint"><summary>Hint {number} of {total}'
        f"</summary>{_text(md, hint, found.id, 'hint')}</details>"
        for number, hint in enumerate(found.hints, 1)
    )
    page, _, section = found.read.partition("#")
    href = f"../{page.removesuffix('.md')}.html"
    href += f"#{section}" if section else ""
    return (
        f'<section class="seven-exercise" id="{ident}" '
        f'aria-label="Exercise {found.id}">'
        f'<p class="seven-exercise__facts">About {found.minutes} minutes. '
        f'Before it: <a href="{escape(href)}">what to read</a>.</p>'
        f"{code(md, commands, 'text', '')}"
        f"{_text(md, found.task, found.id)}{hints}</section>"
    )


def _exercises(text: str, md: Any) -> str:
    """A table of exercises."""
    given = options.parse(text, required=["step"])
    step = None if given["step"] == "all" else options.whole(given, "step")
    chosen = [e for e in known.everything() if step in (None, e.step)]
    if not chosen:
        raise SiteError(f"step {given['step']} has no exercises")
    rows = "".join(
        f"<tr><td>{e.id}</td><td>"
        f'<a href="{escape(_href(e))}">{prose(md, e.title)}</a></td>'
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


def _href(exercise: Exercise) -> str:
    """From any page in a folder of docs/ to an exercise."""
    return f"../{page_of(exercise.step)}.html#{anchor(exercise)}"


exercise = fence(_exercise)
exercises = fence(_exercises)
