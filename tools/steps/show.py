"""A file stepped: its traces, packed, in a figure of HTML.

The figure shows one moment as it stands; docs/assets/step.js steps.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from html import escape
from pathlib import Path
from typing import Any

from tools.steps.kernel import MOST_STEPS
from tools.steps.run import scenario

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SECONDS = 10.0  # for a run; they take less than one
EVERY = ("one", "three", "silent", "pieces", "reset", "twenty")


class StepError(Exception):
    """A file cannot be stepped; the text says why, in a sentence."""


def traced(
    file: Path, name: str, options: Sequence[str] = (),
    last_step: int = MOST_STEPS + 1, interval: int = 0,
) -> dict[str, Any]:
    """What `run` prints for a file and a scenario, as far as a step.

    interval: lines after which a thread lets another one run. Raises
    StepError.
    """
    words = [
        sys.executable, "-m", "tools.steps.run", str(file.resolve()), name,
        str(last_step), str(interval), *options,
    ]
    try:
        done = subprocess.run(
            words, cwd=ROOT, capture_output=True,
            timeout=SECONDS, text=True,
        )
        found: dict[str, Any] = json.loads(done.stdout)
    except subprocess.TimeoutExpired:
        raise StepError(
            f"{file.name} did not end within {SECONDS:g} seconds: does it "
            "compute without end?"
        ) from None
    except ValueError:
        last = done.stderr.strip().rpartition("\n")[2]
        raise StepError(f"{file.name} cannot be stepped: {last}") from None
    return found


def packed(trace: list[list[Any]]) -> list[Any]:
    """A trace without what repeats: a number alone is the new time."""
    rows: list[Any] = []
    now = 0.0
    for kind, moment, thread, *details in trace:
        if moment != now:
            now = moment
            rows.append(now)
        rows.append([kind, thread, *details])
    return rows


def facts(
    file: Path, names: Sequence[str] = EVERY, options: Sequence[str] = ()
) -> dict[str, Any]:
    """All that the script needs. Raises StepError, KeyError."""
    plans = [scenario(name) for name in names]
    with ThreadPoolExecutor() as pool:
        runs = pool.map(lambda name: traced(file, name, options), names)
    found = []
    for plan, run in zip(plans, runs, strict=True):
        found.append({
            "title": plan["title"], "clients": len(plan["clients"]),
            "trace": packed(run["trace"]), "error": run["error"],
            "moment": 0,
        })
    sentences = json.loads((HERE / "sentences.json").read_text("utf-8"))
    return {"scenarios": found, "sentences": sentences}


def moment(data: dict[str, Any], words: str) -> int:
    """The step of the first scenario that is called so: "block sleep 2".

    Raises StepError if it does not come to that.
    """
    kind, call, which = words.split()
    rows = [row for row in data["scenarios"][0]["trace"]
            if isinstance(row, list)]
    found = [at for at, row in enumerate(rows, 1)
             if row[0] == kind and row[2] == call]
    if len(found) < int(which):
        raise StepError(f"there is no {words!r} in the trace")
    return found[int(which) - 1]


def figure(
    ident: str, code: str, data: dict[str, Any], caption: str,
    seen: Sequence[tuple[str, list[str]]] = (),
) -> str:
    """The element. code: HTML whose lines have data-line.

    seen: the panels at the moment that is shown without a script.
    """
    panels = "".join(
        f"<div><p><strong>{escape(title)}</strong></p><ul>"
        + "".join(f"<li>{escape(line)}</li>" for line in lines)
        + "</ul></div>"
        for title, lines in seen
    )
    text = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    return (
        f'<figure class="seven-step" id="{ident}" tabindex="-1" '
        f'data-search-exclude><div class="step-code">{code}</div>'
        f'<div class="step-kernel" role="group" tabindex="0" '
        f'aria-label="The kernel">{panels}</div>'
        f'<p class="step-says" aria-live="polite">{escape(caption)}</p>'
        f'<script type="application/json">{text}</script></figure>'
    )


def page(file: Path, data: dict[str, Any]) -> str:
    """One HTML file that needs nothing else."""
    assets = ROOT / "docs" / "assets"
    style = (assets / "step.css").read_text("utf-8")
    script = (assets / "step.js").read_text("utf-8")
    lines = "".join(
        f'<span data-line="{number}">{escape(line)}\n</span>'
        for number, line in enumerate(
            file.read_text("utf-8", "replace").splitlines(), 1
        )
    )
    title = escape(file.name)
    shown = figure("step", f"<pre><code>{lines}</code></pre>", data, "")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{title}, step by step</title>"
        '<meta name="viewport" content="width=device-width">'
        f"<style>{style}</style></head><body><h1>{title}</h1>{shown}"
        f"<script>{script}</script></body></html>\n"
    )
