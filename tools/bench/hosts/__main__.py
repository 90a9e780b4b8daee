"""One run in its namespaces: ``python -m tools.bench.hosts NAME CASE``.

It prints the run as JSON. It ends when its input does, which is when
whoever started it is gone.
"""

import json
import os
import signal
import sys
import threading
from dataclasses import asdict

from tools.bench.hosts import experiments
from tools.bench.hosts.rig import Rig, build
from tools.common.launch import LaunchError


def ends_with_its_input() -> None:
    """Stop as on Ctrl-C when nobody holds the other end any more."""
    def watch() -> None:
        os.read(sys.stdin.fileno(), 1)
        main = threading.main_thread().ident
        if main is not None:
            signal.pthread_kill(main, signal.SIGINT)

    signal.signal(signal.SIGINT, signal.default_int_handler)
    threading.Thread(target=watch, daemon=True).start()


def main(words: list[str]) -> int:
    """Measure a case of an experiment once; returns the exit status.

    words: "cable" or "loopback", then the name of the experiment, the
    number of the case, and "smoke" for a short run. Without a name only
    the network is built, to see whether that can be done.
    """
    ends_with_its_input()
    cabled = words.pop(0) == "cable"
    try:
        if not words:
            build(1)
            return 0
        name, number, *smoke = words
        module = experiments.BY_NAME[name]
        case = module.cases(bool(smoke))[int(number)]
        with Rig(case, cabled) as rig:
            found = module.measure(rig)
            each = found if isinstance(found, list) else [found]
            print(json.dumps([
                {"run": asdict(at.figures(m)), "raw": at.raw(m.note)}
                for at, m in zip(rig.all, each, strict=True)
            ]))
    except LaunchError as error:
        print(error, file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
