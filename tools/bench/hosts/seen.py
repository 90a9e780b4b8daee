"""To be written."""

from tools.bench.hosts.rig import Case, Measured, Rig

HELP = "to be written"


def cases(smoke: bool) -> list[Case]:
    """One case."""
    return [Case(server="06", variant="seen", phases=((50, 2.0),))]


def measure(rig: Rig) -> Measured:
    """One load."""
    return Measured(rig.load().result())
