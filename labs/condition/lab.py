# ruff: noqa: B904, F401, I001, UP004, UP006, UP010, UP024, UP030, UP032, UP035
"""Lab: what a condition in C is worth, and three kinds of GIL.

In 2015 PythonPlus, a changed Python 2.7, got a Condition in C and another
GIL. This lab has both for the Python that runs it: a Condition in three
designs (condition.c), called with ctypes, beside Python's own and a Lock;
and a lock for C threads that is taken and given away as the GIL of 2.7,
as today's, or as that of PythonPlus (gil.c).

Run it:     python3 -m labs.condition.lab
Try this:   python3 -m labs.condition.lab --cpus 1
            python3 -m labs.condition.lab --only futex,Condition
The C needs Linux and cc; without them only Python's own are measured.
It runs on Python 2.7 and on 3.6 and later: so its types are comments.
"""

from __future__ import print_function

import argparse
import collections
import ctypes
import functools
import json
import os
import platform
import shutil
import signal
import subprocess
import sys
import tempfile

from labs.gil.lab import (
    ConditionPair, LabError, LockPair, Parser, hand_overs, leave, use_cpus,
)

MYPY = False
if MYPY:  # for the type checker alone
    from typing import Any, Dict, List, Optional

    Figures = Dict[str, float]

HERE = os.path.dirname(os.path.abspath(__file__))
SECONDS = 0.5  # that one measurement lasts
DESIGNS = ["pthread_cond_t", "semaphore", "futex"]  # condition.c
GILS = ["GIL-2.x", "GIL-5ms", "GIL-priority"]  # gil.c
OWN = ["Lock", "Condition"]  # Python's
IN_C = ["C-" + design for design in DESIGNS]  # no Python at all
KINDS = OWN + DESIGNS + IN_C + GILS
FOREVER = ctypes.c_double(-1)
# Its figures, each with the digits that are printed.
HEADS = {"handed": 0, "handed_hog": 0, "hog_left": 2, "two_hogs": 2}


# --- A Condition in C -----------------------------------------------


class Native(object):
    """A Condition whose lock, waiting and waking are in C.

    As threading.Condition(threading.Lock()); who waits or notifies has
    to hold it, and that is not checked.
    """

    def __init__(self, library, design):  # type: (str, str) -> None
        # A call through PyDLL keeps the GIL, one through CDLL gives it
        # away, and has to get it back. As Python's own Lock, we give it
        # away only to wait.
        keeps, gives = ctypes.PyDLL(library), ctypes.CDLL(library)
        keeps.condition_new.restype = ctypes.c_void_p
        it = ctypes.c_void_p(keeps.condition_new(DESIGNS.index(design)))
        bound = functools.partial
        self.try_acquire = bound(keeps.condition_try_acquire, it)
        self.acquire = bound(gives.condition_acquire, it)
        self.release = bound(keeps.condition_release, it)
        self.sleep = bound(gives.condition_wait, it)
        self.notify = bound(keeps.condition_notify, it, 0)
        self.notify_all = bound(keeps.condition_notify, it, 1)
        self.free = bound(keeps.condition_free, it)

    def __enter__(self):  # type: () -> Native
        if not self.try_acquire():
            self.acquire()
        return self

    def __exit__(self, *error):  # type: (object) -> None
        self.release()

    def wait(self, timeout=None):  # type: (Optional[float]) -> bool
        """Until notified (True), or for so many seconds (False)."""
        if timeout is None:
            return bool(self.sleep(FOREVER))
        return bool(self.sleep(ctypes.c_double(max(timeout, 0))))

    def __del__(self):  # type: () -> None
        self.free()


class NativePair(ConditionPair):
    """The lab gil's pair with a condition, with one of ours."""

    def __init__(self, library, design):  # type: (str, str) -> None
        ConditionPair.__init__(self)
        self.changed = Native(library, design)  # type: ignore[assignment]


def build(folder):  # type: (str) -> str
    """Compile the C into a folder; the path of the library.

    Raises LabError with a sentence if that cannot be.
    """
    rest = "so only Python's own Lock and Condition are measured"
    if not sys.platform.startswith("linux"):
        raise LabError("the conditions in C need Linux, " + rest)
    path = os.path.join(folder, "condition.so")
    words = ["cc", "-O2", "-shared", "-fPIC", "-pthread", "-o", path]
    words += [os.path.join(HERE, name) for name in ("condition.c", "gil.c")]
    try:
        cc = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
    except EnvironmentError:
        raise LabError("there is no C compiler cc, " + rest +
                       ": on Debian and Ubuntu, apt install gcc libc6-dev")
    said = cc.communicate()[0].decode("utf-8", "replace").strip()
    if cc.returncode:
        raise LabError("cc cannot compile {0}, {1}: {2}".format(
            "labs/condition", rest, said.splitlines()[0] if said else "?"))
    return path


# --- What is measured -----------------------------------------------


def measure(kind, library, seconds):  # type: (str, str, float) -> Figures
    """The figures of one of KINDS; those of a pair are a second's."""
    if kind in GILS:
        return measure_gil(GILS.index(kind), library, seconds)
    if kind in IN_C:
        run = ctypes.CDLL(library).condition_pair
        run.restype = ctypes.c_long
        handed = run(IN_C.index(kind), ctypes.c_double(seconds))
        if handed < 0:
            raise LabError("a wake-up was lost")
        return {"handed": handed / seconds}
    pair = functools.partial(NativePair, library, kind)  # type: Any
    if kind in OWN:
        pair = LockPair if kind == "Lock" else ConditionPair
    return {"handed": hand_overs(pair, seconds, False),
            "handed_hog": hand_overs(pair, seconds, True)}


def measure_gil(design, library, seconds):
    # type: (int, str, float) -> Figures
    """A pair alone and beside a hog, a hog alone and beside another.

    hog_left: what a hog does beside the pair; two_hogs: what two do
    together. Both are parts of what one does alone.
    """
    def run(pair, hogs):  # type: (int, int) -> List[float]
        done = (ctypes.c_long * 3)()
        ctypes.CDLL(library).gil_measure(
            design, pair, hogs, ctypes.c_double(seconds), done
        )
        if done[2]:
            raise LabError("two threads had the GIL at the same time")
        return [each / seconds for each in done]

    one = run(0, 1)[1]
    if not one:
        raise LabError("a hog never ran: a longer --seconds may help")
    handed, left = run(1, 1)[:2]
    return {"handed": run(1, 0)[0], "handed_hog": handed,
            "hog_left": left / one, "two_hogs": run(0, 2)[1] / one}


# --- The table ------------------------------------------------------


def parse():  # type: () -> argparse.Namespace
    """The options; ends with status 2 if they make no sense."""
    parser = Parser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("--only", default=",".join(KINDS), metavar="LIST",
        help="measure only these of %(default)s")
    add("--seconds", type=float, default=SECONDS,
        help="that one measurement lasts (%(default)s)")
    add("--cpus", type=int, default=0, metavar="N",
        help="use only so many CPUs, Linux (default: all there are)")
    add("--library", default="", metavar="FILE",
        help="the C, compiled already (default: compile it)")
    add("--json", action="store_true",
        help="print the figures as JSON")
    options = parser.parse_args()
    options.only = options.only.split(",")
    for kind in options.only:
        if kind not in KINDS:
            parser.error("there is no {0!r}; there are {1}".format(
                str(kind), ", ".join(KINDS)))
    if not 0.05 <= options.seconds <= 60:
        parser.error("--seconds is a number from 0.05 to 60")
    return options


def run(options, folder):  # type: (argparse.Namespace, str) -> None
    """Measure what was asked for; folder: for the library.

    Raises LabError.
    """
    if options.cpus:
        use_cpus(options.cpus)
    kinds, library = options.only, options.library
    if not library and not set(kinds) <= set(OWN):
        try:
            library = build(folder)
        except LabError as error:
            kinds = [kind for kind in kinds if kind in OWN]
            if not kinds:
                raise
            print("lab.py: {0}".format(error), file=sys.stderr)
    python = " ".join((
        platform.python_implementation(), platform.python_version()))
    gil = bool(getattr(sys, "_is_gil_enabled", lambda: True)())
    if not options.json:
        print("{0}, {1} a GIL: hand-overs per second alone and beside a "
              "hog;\nwhat that leaves the hog, and what two hogs do, of "
              "what one does".format(python, "with" if gil else "without"))
    figures = collections.OrderedDict()
    for kind in kinds:
        found = measure(kind, library, options.seconds)
        figures[kind] = found
        if not options.json:
            cells = [
                "{0:>11,.{1}f}".format(found[head], HEADS[head])
                for head in sorted(found)
            ]
            print(kind.ljust(17) + "".join(cells))
    if options.json:
        print(json.dumps({"python": python, "gil": gil, "figures": figures}))


def main():  # type: () -> int
    """Measure as asked; returns the exit status."""
    options = parse()
    folder = "" if options.library else tempfile.mkdtemp()
    status, said = 0, ""
    try:
        run(options, folder)
    except LabError as error:
        status, said = 1, "lab.py: {0}\n".format(error)
    except KeyboardInterrupt:
        status = 130
    finally:
        if folder:
            shutil.rmtree(folder)
    return leave(status, said) if status else 0


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(main())
