"""One case, in its namespaces: ``python -m labs.hosts NAME CASE``.

It prints the runs as JSON. Its end is the end of all that it started: it
is the first process of a namespace. It ends when its input does, which is
when whoever started it is gone.
"""

import json
import os
import sys
import threading
from dataclasses import asdict

from labs.hosts.experiments import EXPERIMENTS
from labs.hosts.rig import Rig, build
from tools.common.launch import LaunchError


def end_with_input() -> None:
    """End at once when nobody holds the other end of stdin any more."""
    os.read(sys.stdin.fileno(), 1)
    os._exit(1)


def main(words: list[str]) -> int:
    """Measure a case of an experiment once; returns the exit status.

    words: the name of the experiment, the number of the case. Without
    words only the network is built, to see whether that can be done.
    """
    if os.getpid() != 1:  # it would build bridges in the real network
        print("It runs in namespaces: use ./bench.sh hosts", file=sys.stderr)
        return 2
    threading.Thread(target=end_with_input, daemon=True).start()
    try:
        if not words:
            build(1)
            return 0
        name, number = words
        rig = Rig(EXPERIMENTS[name][0][int(number)])
        runs = rig.measure()
    except LaunchError as error:
        print(error, file=sys.stderr)
        return 1
    print(json.dumps([
        {"run": asdict(one), "raw": balancer.raw()}
        for one, balancer in zip(runs, rig.balancers, strict=True)
    ]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
