"""Numbers of a command line: how they are read."""

import argparse
import math
from collections.abc import Callable


def number(
    low: float, high: float, kind: Callable[[str], float] = int
) -> Callable[[str], float]:
    """A check for argparse: a number from low to high."""

    def check(text: str) -> float:
        try:
            value = kind(text)
        except ValueError:
            value = math.nan
        if not low <= value <= high:
            raise argparse.ArgumentTypeError(
                f"{text!r} is not a number from {low} to {high}"
            )
        return value

    return check


def whole(low: int, high: int) -> Callable[[str], float]:
    """A check for argparse: a number written in digits alone."""
    return number(low, high, _digits)


def _digits(text: str) -> int:
    """An int. Raises ValueError for a sign, a space, or 1_000 too."""
    if not text.isdecimal():
        raise ValueError(text)
    return int(text)
