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
from typing import Any

import yaml  # type: ignore[import-untyped]

from tools.learn import exercises as known
from tools.learn.exercises import Exercise, ExerciseError
from tools.servers import ROOT
from tools.site import options
from tools.site.elements import table
from tools.site.errors import SiteError
from tools.site.exercise import link
from tools.site.fence_call import fence
from tools.site.prose import line as prose

PLAN = ROOT / "docs" / "teach" / "schedule.yml"
STEPS = range(1, 8)  # each has a session
BEYOND = 8  # the last session: exercises of any step
HOWS = ("talk", "ask", "demo", "read", "race", "exercise", "break")
HEAD = ["At", "How", "What", "Minutes"]


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
    """One session: its parts in class, and what comes after.

    step: what it is about, or BEYOND; homework: exercises that all
    should do.
    """

    step: int
    title: str
    parts: tuple[Part, ...]
    homework: tuple[Exercise, ...]

    @property
    def minutes(self) -> int:
        """In class."""
        return sum_of(self.parts)

    @property
    def in_class(self) -> list[Exercise]:
        """The exercises that are done there."""
        return [e for part in self.parts for e in part.exercises]


@dataclass(frozen=True)
class Plan:
    """All of it. limits: minutes of a session, its homework, and the day;
    begins: the day's first minute, counted from midnight."""

    limits: dict[str, int]
    begins: int
    sessions: tuple[Session, ...]
    day: tuple[Part, ...]

    @property
    def worked(self) -> int:
        """The minutes of the day without the breaks."""
        return sum_of([part for part in self.day if part.how != "break"])

    def more(self, step: int) -> list[Exercise]:
        """A step's exercises without a session, for those who like."""
        given = [
            e for session in self.sessions
            for e in (*session.in_class, *session.homework)
        ]
        every = known.everything()
        return [e for e in every if e.step == step and e not in given]


def sum_of(parts: Sequence[Part | Exercise]) -> int:
    """The minutes of all."""
    return sum(part.minutes for part in parts)


def clock(minutes: int) -> str:
    """Minutes as hours and minutes: 95 is 1:35."""
    return f"{minutes // 60}:{minutes % 60:02}"


def plan() -> Plan:
    """What the file says. Raises SiteError if it does not add up."""
    return read(PLAN.read_text("utf-8"))


def read(text: str) -> Plan:
    """A plan from YAML. Raises SiteError if it does not add up."""
    try:
        found = yaml.safe_load(text)
        hours, minutes = found["begins"].split(":")
        made = Plan(
            found["limits"], int(hours) * 60 + int(minutes),
            tuple(
                Session(
                    entry["step"], entry["title"],
                    tuple(_part(part) for part in entry["parts"]),
                    tuple(known.by_id(word) for word in entry["homework"]),
                )
                for entry in found["sessions"]
            ),
            tuple(_part(entry) for entry in found["day"]),
        )
        _check(made)
    except (SiteError, ExerciseError) as error:
        raise SiteError(f"{PLAN.name}: {error}") from None
    except (yaml.YAMLError, KeyError, TypeError, ValueError) as error:
        raise SiteError(f"{PLAN.name} is no plan: {error!r}") from None
    return made


def _part(entry: dict[str, Any]) -> Part:
    """A part as it stands in the file: one key of HOWS, and the minutes."""
    (how,) = entry.keys() - {"minutes"}
    if how not in HOWS:
        raise SiteError(f"{how!r} is none of {', '.join(HOWS)}")
    if how != "exercise":
        return Part(how, str(entry[how]), int(entry["minutes"]))
    if "minutes" in entry:
        raise SiteError(f"the minutes of {entry[how]} stand in its task.md")
    chosen = tuple(known.by_id(word) for word in entry[how])
    return Part(how, "", sum_of(chosen), chosen)


def _check(made: Plan) -> None:
    """Raise SiteError for what does not fit."""
    if [s.step for s in made.sessions] != [*STEPS, BEYOND]:
        raise SiteError(
            f"the sessions must be the seven steps in order, and {BEYOND}"
        )
    takes = [("the day", made.worked, made.limits["day"])]
    for session in made.sessions:
        name = f"session {session.step}"
        used = [*session.in_class, *session.homework]
        for one in used:
            if used.count(one) > 1:
                raise SiteError(f"{name} has {one.id} twice")
            if session.step not in (one.step, BEYOND):
                raise SiteError(f"{name} has {one.id}, of another step")
        home = sum_of(session.homework)
        takes += [
            (name, session.minutes, made.limits["session"]),
            (f"the homework of {name}", home, made.limits["homework"]),
        ]
    for name, minutes, limit in takes:
        if minutes > limit:
            raise SiteError(f"{name} takes {minutes} minutes of {limit}")


# As HTML --------------------------------------------------------------------


def _links(md: Any, chosen: Sequence[Exercise], between: str) -> str:
    return between.join(
        f"{link(e, e.id)} {prose(md, e.title)}" for e in chosen
    )


def _rows(
    md: Any, parts: Sequence[Part], begins: int = 0
) -> Iterator[list[str]]:
    """A row for each part: when it begins, how, what, minutes."""
    now = begins
    for part in parts:
        what = _links(md, part.exercises, "<br>") or prose(md, part.what)
        yield [clock(now), part.how.capitalize(), what, str(part.minutes)]
        now += part.minutes
    yield [clock(now), "End", "", ""]


def _sum(minutes: int, limit: int, more: str = "") -> str:
    spare = f", {limit - minutes} to spare" if minutes < limit else ""
    said = f"{minutes} of {limit} minutes{spare}{more}."
    return f'<p class="seven-schedule__sum">{said}</p>'


def _session(made: Plan, step: int, md: Any) -> str:
    """One session, and what comes after it."""
    if step not in (*STEPS, BEYOND):
        raise SiteError(f"there is no session {step}")
    session = made.sessions[step - 1]
    rows = list(_rows(md, session.parts))
    html = table(HEAD, rows, f"The minutes of session {step}")
    html += _sum(session.minutes, made.limits["session"])
    for name, chosen in (
        ("Homework", session.homework),
        ("For those who want more", made.more(step)),
    ):
        if chosen:
            html += (
                f"<p><strong>{name}</strong> ({sum_of(chosen)} minutes): "
                f"{_links(md, chosen, ', ')}.</p>"
            )
    return html


def _weeks(made: Plan, md: Any) -> str:
    """All sessions, a row each."""
    body = [
        [
            f'<a href="sessions.html#session-{session.step}">'
            f"{session.step} {prose(md, session.title)}</a>",
            _links(md, session.in_class, "<br>"), str(session.minutes),
            _links(md, session.homework, "<br>"),
            str(sum_of(session.homework)),
        ]
        for session in made.sessions
    ]
    total, home = (sum(int(row[at]) for row in body) for at in (2, 4))
    body.append(["Sum", "", str(total), "", str(home)])
    head = ["Session", "Exercises", "Minutes in class", "Homework", "Minutes"]
    return table(head, body, "The sessions")


def _day(made: Plan, md: Any) -> str:
    """The day, by the clock."""
    rows = list(_rows(md, made.day, made.begins))
    breaks = f", and {sum_of(made.day) - made.worked} minutes of breaks"
    shown = table(HEAD, rows, "One day")
    return shown + _sum(made.worked, made.limits["day"], breaks)


def _schedule(given: dict[str, str], md: Any) -> str:
    """A session, all of them, or a day."""
    match given["show"], options.whole(given, "step"):
        case "session", int(step):
            return _session(plan(), step, md)
        case "weeks", None:
            return _weeks(plan(), md)
        case "day", None:
            return _day(plan(), md)
    raise SiteError("show: session (with its step), weeks or day")


schedule = fence(_schedule, "show", "step")
