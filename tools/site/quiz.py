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
from typing import Any

from tools.site import options
from tools.site.errors import SiteError
from tools.site.fence_call import fence_of, uid
from tools.site.prose import line as prose

ANSWER = re.compile(r"- \[([ xX])\]\s*(.*)")
CODE_OR_BAR = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)|(\s\|(?:\s|$))")
RIGHT = '<strong><span aria-hidden="true">✓</span> Right.</strong>'
WRONG = '<strong><span aria-hidden="true">✗</span> No.</strong>'


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
    """A question with answers to choose from."""
    chosen, answers = found
    ident = uid(md, "quiz", *chosen["question"].split()[:6])
    title = prose(md, chosen.get("title", "Predict"))
    question = prose(md, chosen["question"])
    several = sum(answer.right for answer in answers) > 1
    ask = "Choose every answer that is right" if several else "Choose one"
    kind = "checkbox" if several else "radio"
    choices = "".join(
        _choice(md, kind, ident, number, answer)
        for number, answer in enumerate(answers, 1)
    )
    because = ""
    if "because" in chosen:
        because = _said("because", prose(md, chosen["because"]))
    # A form of its own keeps the state apart from other quizzes, and
    # "dialog" makes sure that Enter sends nothing anywhere. There is no
    # div in the div: the search would take the first end for the last.
    return (
        f'<form class="seven-quiz" id="{ident}" method="dialog" '
        f'autocomplete="off">{_targets(md)}<fieldset>'
        f'<legend><span class="seven-quiz__title">{title}</span> '
        f'<span class="seven-quiz__question">{question}</span></legend>'
        '<div class="seven-quiz__answers" data-search-exclude>'
        f'<p class="seven-quiz__ask">{ask}: the reason appears below '
        f"it.</p>{choices}{because}"
        '<button class="seven-quiz__again" type="reset">Start over'
        "</button></div></fieldset></form>"
    )


def _targets(md: Any) -> str:
    """What addresses for printing lead to, once on a page."""
    if getattr(md, "seven_quiz_targets", False):
        return ""
    md.seven_quiz_targets = True
    return (
        '<span id="without-answers" hidden></span>'
        '<span id="only-questions" hidden></span>'
    )


def _choice(
    md: Any, kind: str, group: str, number: int, answer: Answer
) -> str:
    """One answer: what to tick, its words, and why."""
    ident = f"{group}-answer-{number}"
    verdict = RIGHT if answer.right else WRONG
    side = "right" if answer.right else "wrong"
    return (
        f'<input type="{kind}" name="{group}" id="{ident}">'
        f'<label for="{ident}">{prose(md, answer.text)}</label>'
        + _said(
            f"why seven-quiz__why--{side}",
            f"{verdict} {prose(md, answer.why)}",
        )
    )


def _said(part: str, html: str) -> str:
    """What a screen reader speaks as soon as it shows."""
    return (
        '<p class="seven-quiz__said" role="status">'
        f'<span class="seven-quiz__{part}">{html}</span></p>'
    )


quiz = fence_of(_render, parse)
