"""``./learn.sh race``: your own file in the race, next to a step's server.

Beside the rooms, since one of them records it and another one shows it.
"""

import argparse
import re
import webbrowser
from dataclasses import replace
from html import escape
from pathlib import Path

from tools.bench import preflight
from tools.bench.experiments import record
from tools.bench.server import ServerError
from tools.common.files import save
from tools.data.recording import Recording
from tools.data.results import OWN
from tools.learn import desk, exercises
from tools.learn.desk import DeskError
from tools.servers import ROOT, SERVERS, Server, by_name
from tools.site import race, race_data, race_stage
from tools.sketch import changed

ABOUT = "records your server or sketch, and plays it next to a step's server"
NAME = "yours"
# What the theme gives to the site's figures.
THEME = (
    "html{font:125% sans-serif}:root{--md-default-bg-color:#fff;"
    "--md-default-fg-color:#000000de;--md-default-fg-color--light:#0000008a;"
    "--md-code-bg-color:#f5f5f5;--md-code-fg-color:#36464e;"
    "--md-typeset-table-color:#0000001f}"
)
STEP = re.compile(r"0\d(?=\.\d|_)")  # my/05.1/server.py, 05_timer/x.py


def add_options(parser: argparse.ArgumentParser) -> None:
    """What may be said after ``race``."""
    parser.add_argument("file", metavar="FILE", help="as my/05.1/server.py")
    parser.add_argument(
        "--beside", metavar="SERVER", default="",
        choices=["", *(each.name for each in SERVERS)],
        help="the server next to it, as 03-pool (default: its step's)",
    )
    parser.add_argument(
        "--no-browser", action="store_true", help="only write the page"
    )


def competitor(file: Path, like: Server) -> Server:
    """A file as a server that can be started.

    It takes --port and --delay, or has both numbers in it as a sketch has.
    Raises DeskError if it is neither.
    """
    text = file.read_text("utf-8", "replace")
    own = "--port" in text or re.search(r"^(from|import) web\b", text, re.M)
    if not own:
        try:
            changed(text, 8000, 0.1)
        except ValueError:
            raise DeskError(
                f"{file.name} has to take --port and --delay, as a server "
                "does, or to have the numbers 8000 and 0.1 in it once each, "
                "as a sketch has"
            ) from None
    return replace(
        like, name=NAME, title=file.name, waits="your file", workers=0,
        file=str(file) if own else str(ROOT / "tools" / "sketch.py"),
        options=() if own else (str(file),),
    )


def recorded(server: Server) -> Recording:
    """A recording of the file on the real kernel. Raises DeskError."""
    results = preflight.fresh("./learn.sh race", "record", "python")
    fault = ""
    for _ in range(record.ATTEMPTS):
        try:
            return record.attempt(server, results)
        except ServerError as error:
            raise DeskError(str(error)) from None
        except record.CHANCE as error:
            fault = str(error)
    raise DeskError(f"it could not be recorded: {fault}")


def run(options: argparse.Namespace) -> int:
    """Record it, write a page that needs nothing else, and open it.

    Raises DeskError if the file cannot be recorded.
    """
    file = desk.from_caller(Path(options.file)).resolve()
    if not file.is_file():
        raise DeskError(f"there is no file {options.file}")
    own = OWN / "races"
    why = record.impossible(argparse.Namespace(repeats=0, output=None), own)[1]
    if why:
        raise DeskError(why)
    found = STEP.search(file.parent.name)
    known = {each.id: each.like for each in exercises.everything()}
    beside = by_name(
        options.beside or known.get(file.parent.name)
        or (found[0] if found else "02")
    )
    made = recorded(competitor(file, beside))
    print(record.summary(made))
    other, kept = race_data.find(beside.name)
    runs = [
        race.Run(replace(beside, name=NAME, title=file.name,
                         waits="your file", file=file.name),
                 made, made.save(own), race_stage.stage(made), ""),
        race.Run(beside, other, kept, race_stage.stage(other), ""),
    ]
    page = own / f"{file.parent.name}-{file.stem}.html"
    save(page, whole(file.name, race.player(
        runs, "race", f"{file.name} against {beside.file}"
    )))
    print(f"Written: {page}")
    if not options.no_browser:
        webbrowser.open(page.as_uri())
    return 0


def whole(title: str, figure: str) -> str:
    """One HTML file that needs nothing else."""
    assets = ROOT / "docs" / "assets"
    styles = "".join(
        (assets / f"{name}.css").read_text("utf-8")
        for name in ("seven", "race")
    )
    script = (assets / "race.js").read_text("utf-8")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{escape(title)} in the race</title>"
        '<meta name="viewport" content="width=device-width">'
        f"<style>{THEME}{styles}</style></head>"
        f'<body class="md-typeset">{figure}<script>{script}</script>'
        "</body></html>\n"
    )
