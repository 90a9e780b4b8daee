"""``./bench.sh labs``: the labs of the pages, each with its own results.

A lab is a folder of labs/ with what is measured and measure.py, which is
an experiment in all but its name: HELP, OPTIONS, ``measure(session)``. Its
figures go to a folder of its own, and with ``--reference`` to
docs/data/labs-NAME, or to its PLACE.
"""

import argparse
import copy
import importlib
import sys

from tools.bench.outcome import as_typed
from tools.bench.session import add_options, conduct, some_of

LABS = {
    name: importlib.import_module(f"labs.{name}.measure")
    for name in (
        "chain", "connections", "database", "frames", "gil", "hosts",
        "inside", "receive", "wsgi",
    )
}
PLACE = "labs-NAME"
HELP = f"the labs of the pages: {', '.join(LABS)}, or some of them"


def prepare(parser: argparse.ArgumentParser) -> None:
    """The names of the labs, and the options of each."""
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.description = "\n".join(
        [HELP, "", *(f"  {name}: {lab.HELP}" for name, lab in LABS.items())]
    )
    parser.add_argument(
        "labs", nargs="*", type=some_of([*LABS], "lab"), metavar="LAB",
        help=f"{', '.join(LABS)} (default: all)",
    )
    parser.add_argument(
        "--pythons", metavar="LIST",
        help="commands of the interpreters, as in python2.7,python3.13t "
        "(default: all that are on the PATH)",
    )
    for name, module in LABS.items():
        group = parser.add_argument_group(f"options of the lab {name}")
        add_options(group, module.OPTIONS)


def run(options: argparse.Namespace) -> int:
    """Run the labs one after the other; the worst of their statuses."""
    named = {name for names in options.labs for name in names} or LABS
    chosen = [name for name in LABS if name in named]
    typed = as_typed(sys.argv[1:]).split()
    worst = 0
    for name in chosen:
        own = copy.copy(options)
        others = [word for word in typed if word not in LABS]
        own.command = " ".join([*others[:2], name, *others[2:]])
        if len(chosen) > 1:
            print(f"\nLab {name}")
            if options.output:
                own.output = options.output / f"labs-{name}"
        place = getattr(LABS[name], "PLACE", f"labs-{name}")
        status = conduct(place, own, LABS[name].measure)
        if status == 130:
            return status
        worst = max(worst, status)
    return worst
