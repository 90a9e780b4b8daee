"""The experiments of ``./bench.sh hosts``, by name.

Each is a module with HELP, a line; ``cases(smoke)``, what to measure
(smoke: less and shorter); and ``measure(rig)``, which runs one case.
"""

from tools.bench.hosts import death, restart, scale, seen, slow, storm

BY_NAME = {
    "scale": scale,
    "restart": restart,
    "death": death,
    "slow": slow,
    "storm": storm,
    "seen": seen,
}
