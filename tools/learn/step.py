"""``./learn.sh step``: your own file on the simulated kernel."""

import argparse
import os
import webbrowser
from pathlib import Path

from tools.common.files import save
from tools.data.results import OWN
from tools.learn.desk import DeskError
from tools.steps import show
from tools.steps.run import scenarios

ABOUT = "your server or sketch, line by line, forward and back"


def add_options(parser: argparse.ArgumentParser) -> None:
    """What may be said after ``step``."""
    parser.add_argument("file", metavar="FILE", help="as my/05.1/server.py")
    parser.add_argument(
        "--clients", metavar="WHICH", default="",
        help=f"begin with {', '.join(scenarios())}, or those of FILE.json",
    )
    parser.add_argument(
        "--no-browser", action="store_true", help="only write the page"
    )


def run(options: argparse.Namespace) -> int:
    """Write a page that needs nothing else, and open it.

    Raises DeskError if the file cannot be stepped.
    """
    here = Path(os.environ.get("SEVEN_CALLER", "."))
    file, clients = here / options.file, options.clients
    if not file.is_file():
        raise DeskError(f"there is no file {options.file}")
    if clients.endswith(".json"):
        clients = str(here / clients)
    names = [clients or "three", *show.EVERY]
    try:
        data = show.facts(file, list(dict.fromkeys(names)))
    except show.StepError as error:
        raise DeskError(str(error)) from None
    except (KeyError, ValueError, OSError):
        raise DeskError(
            f"there are no clients {options.clients!r}: give one of "
            f"{', '.join(scenarios())}, or a JSON file as in "
            "docs/exercises/index.md"
        ) from None
    first = data["scenarios"][0]
    if first["error"]:
        print(f"{options.file} stops: {first['error']}")
    page = OWN / "steps" / f"{file.parent.name}-{file.stem}.html"
    save(page, show.page(file, data))
    print(f"Written: {page}")
    if not options.no_browser:
        webbrowser.open(page.as_uri())
    return 0
