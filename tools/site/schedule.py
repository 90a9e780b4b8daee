"""The sessions of a course: parts, minutes, and their sums.

They stand in ``docs/teach/schedule.yml``; the minutes of an exercise are
those of its own task.md. A session that is longer than its time, an
exercise that does not exist, one that is used twice: each ends the build.

Fence ``schedule``::

    show: session
    step: 2

shows one session, ``show: weeks`` all of them in a row each, ``show:
day`` a single day with its breaks.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

import yaml  # type: ignore[import-untyped]

from tools.learn import exercises as known
from tools.learn.exercises import Exercise, ExerciseError
from tools.servers import ROOT
from tools.site import options
from tools.site.errors import SiteError
from tools.site.exercise import anchor, page_of
from tools.site.fence_call import fence
from tools.site.prose import line as prose
from tools.site.tables import table

PLAN = ROOT / "docs" / "teach" / "schedule.yml"
STEPS = range(1, 8)
HOWS = ("talk", "ask", "demo", "read", "race", "exercise", "break")
LIMITS = ("session", "homework", "day")


@dataclass(frozen=True)
class Part:
    """A piece of time.

    how: one of HOWS; what: Markdown; minutes: how long; exercises: what
    is worked on, if how is exercise.
    """

    how: str
    what: str
    minutes: int
    exercises: tuple[Exercise, ...] = ()


@dataclass(frozen=True)
class Session:
    """One of the seven: its parts in class, and what comes after.

    homework: exercises that all should do; more: what is left of the
    step's exercises, for those who like.
    """

    step: int
    title: str
    parts: tuple[Part, ...]
    homework: tuple[Exercise, ...]
    more: tuple[Exercise, ...]

    @property
    def minutes(self) -> int:
        """In class."""
        return sum(part.minutes for part in self.parts)


@dataclass(frozen=True)
class Plan:
    """All of it. limits: minutes for each of LIMITS; begins: the day's
    first minute, counted from midnight."""

    limits: dict[str, int]
    begins: int
    sessions: tuple[Session, ...]
    day: tuple[Part, ...]


def plan() -> Plan:
    """What the file says. Raises SiteError if it does not add up."""
    return read(PLAN.read_text("utf-8"))


def read(text: str) -> Plan:
    """A plan from YAML. Raises SiteError if it does not add up."""
    try:
        found = yaml.safe_load(text)
        made = Plan(
            limits={name: int(found["limits"][name]) for name in LIMITS},
            begins=_moment(found["begins"]),
            sessions=tuple(_session(entry) for entry in found["sessions"]),
            day=tuple(_part(entry) for entry in found["day"]),
        )
    except ExerciseError as error:
        raise SiteError(f"{PLAN.name}: {error}") from None
    except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise SiteError(f"{PLAN.name} is no plan: {error!r}") from None
    _check(made)
    return made


def _session(entry: dict[str, Any]) -> Session:
    step = int(entry["step"])
    parts = tuple(_part(part) for part in entry["parts"])
    homework = tuple(known.by_id(word) for word in entry["homework"])
    in_class = [e for part in parts for e in part.exercises]
    more = tuple(
        e for e in known.everything()
        if e.step == step and e not in (*in_class, *homework)
    )
    return Session(step, str(entry["title"]), parts, homework, more)


def _part(entry: dict[str, Any]) -> Part:
    """A part as it stands in the file: one key of HOWS, and the minutes."""
    (how,) = [key for key in entry if key != "minutes"]
    if how not in HOWS:
        raise SiteError(
            f"{PLAN.name}: {how!r} is none of {', '.join(HOWS)}"
        )
    if how != "exercise":
        return Part(how, str(entry[how]), int(entry["minutes"]))
    if "minutes" in entry:
        raise SiteError(
            f"{PLAN.name}: the minutes of {entry[how]} stand in its task.md"
        )
    chosen = tuple(known.by_id(word) for word in entry[how])
    return Part(how, "", sum(e.minutes for e in chosen), chosen)


def _check(made: Plan) -> None:
    """Raise SiteError for what does not fit."""
    if [s.step for s in made.sessions] != list(STEPS):
        raise SiteError(f"{PLAN.name} must have the seven steps in order")
    for session in made.sessions:
        name = f"session {session.step}"
        used = [e.id for p in session.parts for e in p.exercises]
        used += [e.id for e in session.homework]
        for ident in used:
            if used.count(ident) > 1:
                raise SiteError(f"{name} has {ident} twice")
            if known.by_id(ident).step != session.step:
                raise SiteError(f"{name} has {ident}, of another step")
        _fits(name, session.minutes, made.limits["session"])
        home = sum(e.minutes for e in session.homework)
        _fits(f"the homework of {name}", home, made.limits["homework"])
    _fits("the day", _worked(made.day), made.limits["day"])
    _fits("the clock", made.begins + _all(made.day), 24 * 60)


def _fits(name: str, minutes: int, limit: int) -> None:
    if minutes > limit:
        raise SiteError(f"{name} takes {minutes} minutes of {limit}")


def _all(parts: Sequence[Part]) -> int:
    return sum(part.minutes for part in parts)


def _worked(parts: Sequence[Part]) -> int:
    """The minutes without the breaks."""
    return sum(part.minutes for part in parts if part.how != "break")


def _moment(text: str) -> int:
    """A time of the day, as in "9:00", in minutes from midnight."""
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)


def clock(minutes: int) -> str:
    """Minutes as hours and minutes: 95 is 1:35."""
    return f"{minutes // 60}:{minutes % 60:02}"


# As HTML --------------------------------------------------------------------


def _link(md: Any, exercise: Exercise) -> str:
    """An exercise with a link to it. HTML."""
    href = f"../{page_of(exercise.step)}.html#{anchor(exercise)}"
    title = prose(md, exercise.title)
    return f'<a href="{escape(href)}">{exercise.id}</a> {title}'


def _links(md: Any, chosen: Sequence[Exercise]) -> str:
    """Exercises, a line each. HTML."""
    return "<br>".join(_link(md, e) for e in chosen)


def _rows(
    md: Any, parts: Sequence[Part], begins: int = 0
) -> Iterator[list[str]]:
    """A row for each part: when it begins, how, what, minutes. HTML."""
    now = begins
    for part in parts:
        what = _links(md, part.exercises) or prose(md, part.what)
        yield [clock(now), part.how.capitalize(), what, str(part.minutes)]
        now += part.minutes
    yield [clock(now), "End", "", ""]


def _after(md: Any, name: str, chosen: Sequence[Exercise]) -> str:
    """A line below the table; nothing if nothing is chosen. HTML."""
    if not chosen:
        return ""
    words = ", ".join(_link(md, e) for e in chosen)
    minutes = sum(e.minutes for e in chosen)
    return f"<p><strong>{name}</strong> ({minutes} minutes): {words}.</p>"


def _of(minutes: int, limit: int) -> str:
    left = limit - minutes
    spare = f", {left} to spare" if left else ""
    return f"{minutes} of {limit} minutes{spare}"


HEAD = ["At", "How", "What", "Minutes"]


def _one(made: Plan, step: int, md: Any) -> str:
    """One session. HTML."""
    if step not in STEPS:
        raise SiteError(f"there is no session {step}")
    session = made.sessions[step - 1]
    shown = table(
        HEAD, list(_rows(md, session.parts)), f"The minutes of session {step}"
    )
    total = _of(session.minutes, made.limits["session"])
    return (
        f'{shown}<p class="seven-schedule__sum">{total}.</p>'
        f"{_after(md, 'Homework', session.homework)}"
        f"{_after(md, 'For those who want more', session.more)}"
    )


def _weeks(made: Plan, md: Any) -> str:
    """All sessions, a row each. HTML."""
    body, total, home = [], 0, 0
    for session in made.sessions:
        in_class = [e for p in session.parts for e in p.exercises]
        minutes = sum(e.minutes for e in session.homework)
        body.append([
            f'<a href="sessions.html#session-{session.step}">'
            f"{session.step} {prose(md, session.title)}</a>",
            _links(md, in_class),
            str(session.minutes), _links(md, session.homework), str(minutes),
        ])
        total += session.minutes
        home += minutes
    body.append(["Sum", "", str(total), "", str(home)])
    head = ["Session", "Exercises", "Minutes", "Homework", "Minutes"]
    return table(head, body, "The seven sessions")


def _day(made: Plan, md: Any) -> str:
    """The day, by the clock. HTML."""
    rows = list(_rows(md, made.day, made.begins))
    worked, limit = _worked(made.day), made.limits["day"]
    breaks = _all(made.day) - worked
    return (
        f"{table(HEAD, rows, 'One day')}"
        f'<p class="seven-schedule__sum">{_of(worked, limit)}, and {breaks} '
        "minutes of breaks.</p>"
    )


def _schedule(text: str, md: Any) -> str:
    """A session, all of them, or a day."""
    given = options.parse(text, ["show"], ["step"])
    made = plan()
    show, step = given["show"], options.whole(given, "step")
    if show == "session" and step is not None:
        return _one(made, step, md)
    if show == "weeks":
        return _weeks(made, md)
    if show == "day":
        return _day(made, md)
    raise SiteError("show: session (with its step), weeks or day")


schedule = fence(_schedule)
