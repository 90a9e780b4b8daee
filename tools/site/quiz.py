"""A question with answers to choose from.

::

    question: What does ... do?
    title: Predict
    - [ ] An answer | Why it is wrong.
    - [x] Another | Why it is right.
    because: What stands below, whatever was chosen.

``title`` (default "Predict") and ``because`` may be left out. A text goes
on in the next line if that is indented. Several ``[x]`` make boxes to
tick instead of one choice.

No script: the explanation follows its answer in the document and shows
as soon as the answer is chosen. It stands in a live region, so a screen
reader speaks it then. Paper shows every explanation and what is right, unless
the page's address ends in ``#without-answers`` or ``#only-questions``:
the first question on a page carries these two ids, and the style sheet
does the rest.
"""

import re
from dataclasses import dataclass
from functools import partial
from typing import Any

from tools.site import options
from tools.site.errors import SiteError
from tools.site.fence_call import fence_of, uid
from tools.site.prose import line as prose
from tools.site.template import html

ANSWER = re.compile(r"- \[([ xX])\]\s*(.*)")
CODE_OR_BAR = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)|(\s\|(?:\s|$))")


@dataclass(frozen=True)
class Answer:
    """One answer and why it is right or wrong, both in Markdown."""

    text: str
    why: str
    right: bool


def parse(text: str) -> tuple[dict[str, str], list[Answer]]:
    """The options of a question, and its answers. Raises SiteError."""
    lines = re.sub(r"\n\s+(?=\S)", " ", text).splitlines()
    answers, others = [], []
    for line in lines:
        if found := ANSWER.fullmatch(line.strip()):
            answers.append(_answer(found[1] != " ", found[2]))
        else:
            others.append(line)
    chosen = options.parse(
        "\n".join(others), ["question"], ["title", "because"]
    )
    if len(answers) < 2:
        raise SiteError("a question needs two answers or more")
    if not any(answer.right for answer in answers):
        raise SiteError("no answer is marked as right: [x]")
    if len({answer.text for answer in answers}) < len(answers):
        raise SiteError("an answer is there twice")
    return chosen, answers


def _answer(right: bool, text: str) -> Answer:
    """The parts before and after the first bar that is not in code."""
    bars = [found for found in CODE_OR_BAR.finditer(text) if found[2]]
    if bars:
        says, why = text[: bars[0].start()], text[bars[0].end() :]
        if says.strip() and why.strip():
            return Answer(says.strip(), why.strip(), right)
    raise SiteError(f"the answer {text!r} needs ' | ' and why")


def _render(found: tuple[dict[str, str], list[Answer]], md: Any) -> str:
    """A question with answers to choose from.

    The first on a page carries what addresses for printing lead to.
    """
    chosen, answers = found
    ident = uid(md, "quiz", *chosen["question"].split()[:6])
    first = not getattr(md, "seven_quiz", False)
    md.seven_quiz = True
    return html("quiz", **{
        "title": "Predict", "because": "", **chosen, "id": ident,
        "first": first, "answers": answers, "prose": partial(prose, md),
        "several": sum(answer.right for answer in answers) > 1,
    })


quiz = fence_of(_render, parse)
