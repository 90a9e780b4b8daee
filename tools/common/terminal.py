"""What stands on the terminal: as wide as it is, and in tables."""

from collections.abc import Sequence

from rich import box
from rich.console import Console
from rich.table import Table

WIDTH = 100  # columns when the output goes to a file


def a_console(width: int = WIDTH) -> Console:
    """Prints to the terminal; so wide where there is none."""
    there = Console().is_terminal
    return Console(highlight=False, width=None if there else width)


def a_table(
    titles: Sequence[str], rows: Sequence[Sequence[str]],
    title: str | None = None,
) -> Table:
    """A table; numbers stand in columns whose title ends with >."""
    table = Table(
        title=title, box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1),
        collapse_padding=True, title_justify="left", title_style="bold",
    )
    for head in titles:
        right = head.endswith(">")
        table.add_column(
            head.rstrip(">"), justify="right" if right else "left",
            overflow="fold",
        )
    for row in rows:
        table.add_row(*row)
    return table
