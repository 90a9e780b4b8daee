"""``python -m tools.learn grade``: many students' folders at once."""

import argparse

ABOUT = "check the folders of many students (for teachers)"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    parser.add_argument("folders", nargs="+", metavar="DIR")


def run(options: argparse.Namespace) -> int:
    """Grade them; the exit status."""
    raise NotImplementedError
