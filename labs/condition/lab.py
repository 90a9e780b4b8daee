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
import resource
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
# The columns of the table, each with its digits.
HEADS = [
    ("handed_per_second", 0), ("handed_hog_per_second", 0),
    ("switches_per_hand_over", 1), ("hog_left_times", 2),
    ("two_hogs_times", 2),
]


# --- A Condition in C -----------------------------------------------


class Native(object):
    """A Condition whose lock, waiting and waking are in C.

    As threading.Condition(threading.Lock()). A thread has to hold it to
    wait or to notify, and that is not checked.
    """

    def __init__(self, library, design):  # type: (str, str) -> None
        # A call through PyDLL keeps the GIL, one through CDLL gives it
        # away, and has to get it back. As Python's own Lock, we give it
        # away only to wait.
        keeps, gives = ctypes.PyDLL(library), ctypes.CDLL(library)
        keeps.condition_new.restype = ctypes.c_void_p
        keeps.condition_enlist.restype = ctypes.c_void_p
        gives.condition_sleep.argtypes = [ctypes.c_void_p, ctypes.c_double]
        it = ctypes.c_void_p(keeps.condition_new(DESIGNS.index(design)))
        bound = functools.partial
        self.try_acquire = bound(keeps.condition_try_acquire, it)
        self.wait_for_lock = bound(gives.condition_acquire, it)
        self.release = bound(keeps.condition_release, it)
        self.enlist = bound(keeps.condition_enlist, it)
        self.sleep = gives.condition_sleep
        self.notify = bound(keeps.condition_notify, it, 0)
        self.notify_all = bound(keeps.condition_notify, it, 1)
        self.free = bound(keeps.condition_free, it)

    def acquire(self):  # type: () -> None
        """Take the lock."""
        if not self.try_acquire():
            self.wait_for_lock()

    def __enter__(self):  # type: () -> Native
        self.acquire()
        return self

    def __exit__(self, *error):  # type: (object) -> None
        self.release()

    def wait(self, timeout=None):  # type: (Optional[float]) -> bool
        """Until notified (True), or for so many seconds (False)."""
        limit = -1 if timeout is None else max(timeout, 0)
        notified = self.sleep(self.enlist(), limit)
        self.acquire()
        return bool(notified)

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
    """The figures of one of KINDS; a switch: a thread that has to sleep."""
    if kind in GILS:
        return measure_gil(GILS.index(kind), library, seconds)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    if kind in IN_C:
        handed = pair_in_c(IN_C.index(kind), library, seconds)
        found = {"handed_per_second": handed / seconds}
    else:
        pairs = []  # type: List[Any]

        def pair():  # type: () -> Any
            pairs.append(
                LockPair() if kind == "Lock" else
                ConditionPair() if kind == "Condition" else
                NativePair(library, kind)
            )
            return pairs[-1]

        found = {"handed_per_second": hand_overs(pair, seconds, False)}
        handed = pairs[0].handed
    after = resource.getrusage(resource.RUSAGE_SELF).ru_nvcsw
    found["switches_per_hand_over"] = (after - before) / (handed or 1.0)
    if kind not in IN_C:
        found["handed_hog_per_second"] = hand_overs(pair, seconds, True)
    return found


def pair_in_c(design, library, seconds):  # type: (int, str, float) -> int
    """The hand-overs of two threads in C, without any Python."""
    run = ctypes.CDLL(library).condition_pair
    run.restype = ctypes.c_long
    handed = run(design, ctypes.c_double(seconds))  # type: int
    if handed < 0:
        raise LabError("a wake-up was lost")
    return handed


def measure_gil(design, library, seconds):
    # type: (int, str, float) -> Figures
    """A pair alone and beside a hog, a hog alone and beside another.

    hog_left: what a hog does beside the pair; two_hogs: what two do
    together. Both are times what one does alone.
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
    return {"handed_per_second": run(1, 0)[0],
            "handed_hog_per_second": handed,
            "hog_left_times": left / one,
            "two_hogs_times": run(0, 2)[1] / one}


# --- The table ------------------------------------------------------


def parse():  # type: () -> argparse.Namespace
    """The options; ends with status 2 if they make no sense."""
    parser = Parser(
        prog="lab.py",  # of a module, 3.14 says another name
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
        print("{0}, {1} a GIL\n{2:>28}{3:>11}{4:>11}{5:>11}{6:>11}".format(
            python, "with" if gil else "without", "hand-overs/s", "+ a hog",
            "switches", "hog left", "two hogs"))
    figures = collections.OrderedDict()
    for kind in kinds:
        found = measure(kind, library, options.seconds)
        figures[kind] = found
        if not options.json:
            cells = [
                "{0:>11,.{1}f}".format(found[head], digits)
                if head in found else " " * 11 for head, digits in HEADS
            ]
            print((kind.ljust(17) + "".join(cells)).rstrip())
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
