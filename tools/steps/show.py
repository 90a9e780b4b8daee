"""A file stepped: its traces, packed, in a figure of HTML.

The figure shows one moment as it stands; docs/assets/step.js steps.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from html import escape
from pathlib import Path
from typing import Any

from tools.steps.run import scenario

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
SECONDS = 20.0  # for a run; they take less than one
EVERY = ("one", "three", "silent", "pieces", "reset", "twenty")


class StepError(Exception):
    """A file cannot be stepped; the text says why, in a sentence."""


def traced(
    file: Path, name: str, options: Sequence[str] = ()
) -> dict[str, Any]:
    """What `run` prints for a file and a scenario. Raises StepError."""
    words = [sys.executable, "-m", "tools.steps.run", str(file.resolve())]
    try:
        done = subprocess.run(
            [*words, name, *options], cwd=ROOT, capture_output=True,
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
    file: Path, names: Sequence[str] = EVERY, options: Sequence[str] = (),
    moments: dict[str, int] | None = None,
) -> dict[str, Any]:
    """All that the script needs. Raises StepError."""
    found = []
    for name in names:
        plan, run = scenario(name), traced(file, name, options)
        found.append({
            "title": plan["title"], "clients": len(plan["clients"]),
            "trace": packed(run["trace"]), "error": run["error"],
            "moment": (moments or {}).get(name, 0),
        })
    sentences = json.loads((HERE / "sentences.json").read_text("utf-8"))
    return {"scenarios": found, "sentences": sentences}


def figure(ident: str, code: str, data: dict[str, Any], caption: str) -> str:
    """The element. code: HTML whose lines have data-line."""
    text = json.dumps(data, separators=(",", ":")).replace("</", "<\\/")
    return (
        f'<figure class="seven-step" id="{ident}" tabindex="-1" '
        f'data-search-exclude><div class="step-code">{code}</div>'
        f'<div class="step-kernel"></div>'
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
