"""Exercises, from the very task.md that a student gets.

Fence ``exercise``::

    id: 02.1

shows one: minutes, commands, the task, its hints folded. The heading
above it stands in the page. Fence ``exercises``::

    step: 2

lists those of a step, or with ``step: all`` every one, with minutes.
"""

import re
from functools import partial
from typing import Any

import markdown  # type: ignore[import-untyped]
from markupsafe import Markup

from tools.learn import exercises as known
from tools.learn.exercises import Exercise, ExerciseError
from tools.servers import ROOT
from tools.site import options
from tools.site.errors import SiteError
from tools.site.fence_call import code, fence, uid
from tools.site.prose import line as prose
from tools.site.template import html

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


def _text(md: Any, text: str, where: str) -> str:
    """Where Markdown will stand as HTML; its headings stay below the page's.

    It is in the page's stash, so a template leaves its line breaks alone.
    """
    made: str = markdown.markdown(
        text, extensions=[*EXTENSIONS], extension_configs=CONFIGS
    )
    if re.search("<h[12]", made):
        raise SiteError(f"{where} has a heading in its text")
    place: str = md.htmlStash.store(made)
    return place


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
    page, mark, section = found.read.partition("#")
    return html(
        "exercise", id=uid(md, "exercise", found.id), exercise=found,
        read=f"{page.removesuffix('.md')}.html{mark}{section}",
        commands=Markup(code(md, commands, "text", "")),
        task=_text(md, found.task, found.id),
        hints=[_text(md, hint, f"{found.id} hint") for hint in found.hints],
    )


def _exercises(given: dict[str, str], md: Any) -> str:
    """A table of exercises."""
    step = None if given["step"] == "all" else options.whole(given, "step")
    chosen = [e for e in known.everything() if step in (None, e.step)]
    if not chosen:
        raise SiteError(f"step {given['step']} has no exercises")
    return html(
        "exercises", exercises=chosen, anchor=anchor, page_of=page_of,
        prose=partial(prose, md),
    )


exercise = fence(_exercise, "id")
exercises = fence(_exercises, "step")
