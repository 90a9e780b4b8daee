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


def main(words: list[str]) -> None:
    """Measure a case of an experiment once.

    words: the name of the experiment, the number of the case. Without
    words only the network is built, to see whether that can be done.
    """
    if os.getpid() != 1:  # it would build bridges in the real network
        print("It runs in namespaces: use ./bench.sh hosts", file=sys.stderr)
        sys.exit(2)
    threading.Thread(target=end_with_input, daemon=True).start()
    if not words:
        return build(1)
    rig = Rig(EXPERIMENTS[words[0]][0][int(words[1])])
    print(json.dumps([
        {"run": asdict(one), "raw": balancer.raw()}
        for one, balancer in zip(rig.measure(), rig.balancers, strict=True)
    ]))


if __name__ == "__main__":
    try:
        main(sys.argv[1:])
    except LaunchError as error:
        sys.exit(str(error))
