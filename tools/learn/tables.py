"""``python -m tools.learn.tables``: recordings as tables, for exercises.

Exercise 04.2 shows four recordings without saying whose they are. They
are cut from docs/data/recordings; after those have changed, run this,
and read what it wrote.
"""

import sys
from pathlib import Path

from tools.data import recording
from tools.data.recording import Recording
from tools.servers import ROOT

FOLDER = ROOT / "04_selectors" / "exercises" / "2_bottleneck"
RECORDED = {"A": "04", "B": "03-pool", "C": "02", "D": "03"}
COLUMNS = ("client", "sent", "accepted", "read", "answered", "done")
WIDTH = 10  # characters of a column


def table(name: str, found: Recording) -> str:
    """A line a client, in milliseconds; lines with # explain."""
    lines = [
        f"# Recording {name}: {len(found.clients)} clients connect at the "
        "same moment and",
        f"# ask once each; each request waits {found.delay * 1000:g} ms. "
        "All times are in",
        f"# milliseconds. Recorded on {found.started[:10]}.",
        "".join(column.rjust(WIDTH) for column in (*COLUMNS, "thread")),
    ]
    for number, client in enumerate(found.clients, 1):
        times = [getattr(client, column) for column in COLUMNS[1:]]
        lines.append(
            f"{number:{WIDTH}}"
            + "".join(f"{each / 1000:{WIDTH}.3f}" for each in times)
            + f"{client.lane:{WIDTH}}"
        )
    return "\n".join(lines) + "\n"


def tables() -> dict[Path, str]:
    """The four tables as the committed recordings make them."""
    return {
        FOLDER / f"{name.lower()}.txt": table(
            name, recording.load(recording.REFERENCE / f"{server}.json")
        )
        for name, server in RECORDED.items()
    }


def main() -> int:
    """Write the four tables."""
    for path, text in tables().items():
        path.write_text(text, "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
