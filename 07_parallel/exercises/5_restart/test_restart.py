"""07.5: four restarts, and the one setting that each of them needs."""

import ast
import runpy
from pathlib import Path
from typing import Any

from tools.learn.student import Wrong

Values = dict[str, Any]
HERE = Path(__file__).parent
MINUTE = 60  # seconds until both hosts are in again
PHASES = 20  # moments of a signal between two checks


def model() -> Values:
    """What the student has beside the settings."""
    return runpy.run_path(str(HERE / "restart.py"))


def given(name: str) -> dict[str, Any]:
    """The settings of a restart as they were."""
    text = (HERE / "starter.py").read_text("utf-8")
    _, _, rest = text.partition(f"\n{name} = ")
    found: dict[str, Any] = ast.literal_eval(rest[: rest.index("}") + 1])
    return found


def chosen(values: Values, name: str) -> dict[str, Any]:
    """A student's settings: as many, all of them usable. Raises Wrong."""
    before, now = given(name), values.get(name)
    if not isinstance(now, dict) or set(now) != set(before):
        raise Wrong(
            f"for {name} the settings {', '.join(before)}", f"it is {now!r}"
        )
    for key, value in now.items():
        if key == "http":
            good = isinstance(value, bool)
        else:
            number = isinstance(value, int | float)
            good = number and value is not True and 0 <= value <= MINUTE
        if not good:
            raise Wrong(f"for {key} of {name} what it means", f"{value!r}")
    if now["check_every"] < 1 or now["fall"] < 2 or now["rise"] < 1:
        raise Wrong(
            f"for {name} a check at most once a second, two or more until a "
            "host is out, one or more until it is in",
            f"{now['check_every']} s, {now['fall']} and {now['rise']}",
        )
    return now


def expect_none_lost(values: Values, name: str) -> None:
    """At whatever moment the signal comes. Raises Wrong."""
    settings, restart = chosen(values, name), model()
    for step in range(PHASES):
        hosts, lost = restart["play"](
            settings, step / PHASES * settings["check_every"]
        )
        if lost:
            many = sum(map(len, lost.values()))
            raise Wrong(
                f"that restart {name} loses nothing",
                f"lost: {many} ({', '.join(lost)})",
                ["We moved the signal between two checks"],
            )
    if max(host.again for host in hosts) > restart["FIRST"] + MINUTE:
        raise Wrong(
            f"that both hosts of {name} are in again within {MINUTE} s",
            "it takes longer",
        )


def test_a(values: Values) -> None:
    """Restart A loses nothing."""
    expect_none_lost(values, "A")


def test_b(values: Values) -> None:
    """Restart B loses nothing."""
    expect_none_lost(values, "B")


def test_c(values: Values) -> None:
    """Restart C loses nothing."""
    expect_none_lost(values, "C")


def test_d(values: Values) -> None:
    """Restart D loses nothing."""
    expect_none_lost(values, "D")


def test_one_setting(values: Values) -> None:
    """No more than one setting of each has changed."""
    for name in "ABCD":
        before, now = given(name), chosen(values, name)
        changed = [key for key in before if now[key] != before[key]]
        if len(changed) > 1:
            raise Wrong(
                f"one change in {name}", f"{', '.join(changed)} have changed"
            )
