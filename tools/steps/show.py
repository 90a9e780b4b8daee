"""A file stepped: its traces, packed, in a figure of HTML.

The figure shows one moment as it stands; docs/assets/step.js steps.
"""

from __future__ import annotations

import json
import re
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
OTHERS = 2  # wrong answers beside the right one
# What to ask where a thread blocks in this call; else which line is next.
ASKED_IN = {"select": "ready", "io_uring_enter": "complete"}
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
    """A trace without what repeats.

    A number alone is the new time; a row of one number the next line of
    the thread that last did something.
    """
    rows: list[Any] = []
    now, last = 0.0, 0
    for kind, moment, thread, *details in trace:
        if moment != now:
            now = moment
            rows.append(now)
        short = kind == "line" and thread == last
        rows.append(details if short else [kind, thread, *details])
        last = last if thread < 0 else thread
    return rows


def said(what: str, row: list[Any]) -> str:
    """How a row of a trace answers a question; "" if it does not."""
    kind, _, _, *rest = row
    if what == "served":
        served = kind == "client" and rest[1] == "receive"
        return f"client {rest[0] + 1}" if served else ""
    if kind != what:
        return ""
    if what == "line":
        return f"line {rest[0]}"
    if what == "complete":
        return f"{rest[0]} on {rest[1]}"
    return "descriptor " + ", ".join(map(str, rest[0])) if rest[0] else "none"


def question(
    what: str, trace: list[list[Any]], step: int
) -> list[Any] | None:
    """What comes after a step: [what, step of the answer, options].

    The first option is right; the others come from the trace too. None if
    there is nothing to choose.
    """
    answers = [said(what, row) for row in trace]
    after = next((at for at in range(step, len(trace)) if answers[at]), None)
    if after is None:
        return None
    others = sorted({*filter(None, answers)} - {answers[after]})
    start = step * 7 % max(len(others), 1)
    others = (others[start:] + others)[:min(len(others), OTHERS)]
    return [what, after + 1, answers[after], *others] if others else None


def asks(trace: list[list[Any]], points: Sequence[str]) -> list[list[Any]]:
    """[step, is it always asked, *question] for each step that has one.

    points: where it is always asked, as "block sleep 1: served"; at other
    steps where a thread blocks it is if the reader wants it.
    """
    always = {}
    for point in points:
        words, _, what = point.partition(": ")
        if at := moment(trace, words):
            always[at] = what
    found: list[list[Any]] = []
    for at, (kind, _, _, *rest) in enumerate(trace, 1):
        if at in always or kind == "block":
            what = always.get(at) or ASKED_IN.get(rest[0], "line")
            if asked := question(what, trace, at):
                found.append([at, int(at in always), *asked])
    return found


def facts(
    file: Path, names: Sequence[str] = EVERY, options: Sequence[str] = (),
    shown: str = "",
) -> dict[str, Any]:
    """All that the script needs.

    shown: the moment of the first scenario that it begins with. Raises
    StepError, KeyError.
    """
    plans = [scenario(name) for name in names]
    with ThreadPoolExecutor() as pool:
        runs = pool.map(lambda name: traced(file, name, options), names)
    found: list[dict[str, Any]] = []
    for plan, run in zip(plans, runs, strict=True):
        first = shown if not found else ""
        at = moment(run["trace"], first) if first else 0
        if first and not at:
            raise StepError(f"there is no {first!r} in the trace")
        found.append({
            "title": plan["title"], "clients": len(plan["clients"]),
            "trace": packed(run["trace"]), "error": run["error"],
            "asks": asks(run["trace"], plan.get("ask", ())), "moment": at,
        })
    sentences = json.loads((HERE / "sentences.json").read_text("utf-8"))
    return {"scenarios": found, "sentences": sentences}


def moment(trace: list[list[Any]], words: str) -> int:
    """The step that is called so, as "block sleep 2"; 0 if there is none."""
    kind, call, which = words.split()
    found = [at for at, row in enumerate(trace, 1)
             if row[0] == kind and row[3] == call]
    return found[int(which) - 1] if len(found) >= int(which) else 0


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
    assets, text = ROOT / "docs" / "assets", file.read_text("utf-8", "replace")
    style = (assets / "step.css").read_text("utf-8")
    script = (assets / "step.js").read_text("utf-8")
    lines = "".join(
        f'<span data-line="{number}">{escape(line)}\n</span>'
        for number, line in enumerate(text.splitlines(), 1)
    )
    title = escape(file.name)
    folded = "".join(
        f"<details><summary>{escape(other.name)}, which it imports and "
        "which runs without being shown</summary><pre><code>"
        f"{escape(other.read_text('utf-8', 'replace'))}</code></pre></details>"
        for other in sorted(file.parent.glob("*.py"))
        if re.search(rf"^(from|import) {other.stem}\b", text, re.M)
    )
    shown = figure("step", f"<pre><code>{lines}</code></pre>", data, "")
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        f"<title>{title}, step by step</title>"
        '<meta name="viewport" content="width=device-width">'
        f"<style>{style}</style></head><body><h1>{title}</h1>{shown}{folded}"
        f"<script>{script}</script></body></html>\n"
    )
