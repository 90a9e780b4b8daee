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
from dataclasses import dataclass, field
from typing import Any

from tools.site.errors import SiteError
from tools.site.fence_call import fence, uid
from tools.site.prose import line as prose

KEYS = ("question", "title", "because")
ANSWER = re.compile(r"- \[([ xX])\](?:\s+(.*))?")
CODE_OR_BAR = re.compile(r"(`+)(?!`).*?(?<!`)\1(?!`)|(\s\|(?:\s|$))")
TARGETS = ("without-answers", "only-questions")
RIGHT = '<strong><span aria-hidden="true">✓</span> Right.</strong>'
WRONG = '<strong><span aria-hidden="true">✗</span> No.</strong>'


@dataclass(frozen=True)
class Answer:
    """One answer and why it is right or wrong, both in Markdown."""

    text: str
    why: str
    right: bool


@dataclass
class Quiz:
    """What a fence says."""

    options: dict[str, str] = field(default_factory=dict)
    answers: list[Answer] = field(default_factory=list)

    @property
    def several(self) -> bool:
        """Is more than one answer right?"""
        return sum(answer.right for answer in self.answers) > 1


def parse(text: str) -> Quiz:
    """The question and its answers. Raises SiteError."""
    made = Quiz()
    for line in _unfold(text):
        answer = ANSWER.fullmatch(line)
        if answer:
            made.answers.append(_answer(answer[1] != " ", answer[2] or ""))
            continue
        key, colon, value = line.partition(":")
        if not colon or key not in KEYS:
            raise SiteError(
                f"{line!r} is neither '- [ ] answer | why' nor one of "
                + ", ".join(f"{key}: ..." for key in KEYS)
            )
        if key in made.options:
            raise SiteError(f"{key!r} is there twice")
        if not value.strip():
            raise SiteError(f"{key!r} says nothing")
        made.options[key] = value.strip()
    _check(made)
    return made


def _unfold(text: str) -> list[str]:
    """One line for each part; an indented line continues the last."""
    lines: list[str] = []
    for line in text.splitlines():
        if not line.strip():
            continue
        if line[0].isspace() and lines:
            lines[-1] += f" {line.strip()}"
        else:
            lines.append(line.strip())
    return lines


def _answer(right: bool, text: str) -> Answer:
    """The parts before and after the first bar that is not in code."""
    for match in CODE_OR_BAR.finditer(text):
        if match[2]:
            says = text[: match.start()].strip()
            why = text[match.end() :].strip()
            if says and why:
                return Answer(says, why, right)
            break
    raise SiteError(f"the answer {text!r} needs ' | ' and why")


def _check(made: Quiz) -> None:
    """Raise SiteError for what is no question with answers."""
    if "question" not in made.options:
        raise SiteError("there is no question")
    if len(made.answers) < 2:
        raise SiteError("a question needs two answers or more")
    if not any(answer.right for answer in made.answers):
        raise SiteError("no answer is marked as right: [x]")
    texts = [answer.text for answer in made.answers]
    if len(texts) != len(set(texts)):
        raise SiteError("an answer is there twice")


def _render(text: str, md: Any) -> str:
    """A question with answers to choose from."""
    made = parse(text)
    ident = uid(md, "quiz", *made.options["question"].split()[:6])
    title = prose(md, made.options.get("title", "Predict"))
    question = prose(md, made.options["question"])
    ask = "Choose every answer that is right" if made.several else "Choose one"
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
        "it.</p>"
        + "".join(
            _choice(md, ident, number, answer, made.several)
            for number, answer in enumerate(made.answers, 1)
        )
        + _because(md, made)
        + '<button class="seven-quiz__again" type="reset">Start over'
        "</button></div></fieldset></form>"
    )


def _targets(md: Any) -> str:
    """What addresses for printing lead to, once on a page."""
    if md.__dict__.setdefault("seven_quiz_targets", False):
        return ""
    md.seven_quiz_targets = True
    return "".join(f'<span id="{name}" hidden></span>' for name in TARGETS)


def _choice(
    md: Any, group: str, number: int, answer: Answer, several: bool
) -> str:
    """One answer: what to tick, its words, and why."""
    ident = f"{group}-answer-{number}"
    kind = "checkbox" if several else "radio"
    side = "right" if answer.right else "wrong"
    verdict = RIGHT if answer.right else WRONG
    return (
        f'<input type="{kind}" name="{group}" id="{ident}">'
        f'<label for="{ident}">{prose(md, answer.text)}</label>'
        '<p class="seven-quiz__said" role="status">'
        f'<span class="seven-quiz__why seven-quiz__why--{side}">'
        f"{verdict} {prose(md, answer.why)}</span></p>"
    )


def _because(md: Any, made: Quiz) -> str:
    if "because" not in made.options:
        return ""
    text = prose(md, made.options["because"])
    return (
        '<p class="seven-quiz__said" role="status">'
        f'<span class="seven-quiz__because">{text}</span></p>'
    )


quiz = fence(_render)
