"""The controls of the page Compare: which servers, and the reader's file.

A script (docs/assets/compare.js) brings them to life; without one they are
not shown, and everything else on the page is. The script draws charts by
the rules of `tools.site.charts` and `tools.site.tables`; the constants of
those rules it takes from here, so that they stand in one place.
"""

import json
from dataclasses import asdict
from html import escape
from typing import Any

from tools.data.results import LATENCIES, NUMBERS, SCHEMA, STEPS, Results
from tools.servers import NO, SERVERS, YES, Server
from tools.site import charts, data, options
from tools.site.fence_call import fence, uid
from tools.site.figures import DASH, FIGURES

# Figures of a run of the servers that are made from its numbers.
DERIVED = (
    "share", "possible", "failures", "cpu_ms", "cpu_us", "cores",
    "calls_per_request",
)
LARGEST = 20_000_000  # bytes of a results.json that the page reads


def family(server: Server) -> str:
    """What it does while a request waits: one of four ways."""
    if server.lessons["cores"] == YES:
        return "many cores"
    if server.lessons["overlap"] == NO:
        return "wait one at a time"
    return "threads" if "thread" in server.waits else "event loops"


def presets() -> dict[str, list[str]]:
    """Names of servers to choose together, by what the button says."""
    steps = [server.name for server in options.servers("steps")]
    found = {
        "all": [server.name for server in SERVERS],
        "the seven steps": steps,
        "the variants": [s.name for s in SERVERS if s.name not in steps],
    }
    for server in SERVERS:
        found.setdefault(family(server), []).append(server.name)
    return found


def rules() -> dict[str, Any]:
    """What the script must know to draw as the build does."""
    return {
        "schema": SCHEMA,
        "modes": STEPS,
        "largest": LARGEST,
        "latencies": LATENCIES,
        "numbers": NUMBERS,
        "writers": {
            name: FIGURES[name].write.__name__
            for name in (*LATENCIES, *NUMBERS, *DERIVED)
            if name in FIGURES
        },
        "dash": DASH,
        "mark": charts.MARK,
        "row": charts.ROW,
        "ownRow": charts.OWN_ROW,
        "axis": charts.AXIS,
        "sweepHeight": charts.SWEEP_HEIGHT,
        "labelGap": charts.LABEL_GAP,
        "cross": charts.CROSS,
        "shapes": charts.SHAPES,
    }


def embedded(run: Results | None) -> dict[str, Any] | None:
    """The reader's results without what is empty, for the page."""
    if run is None:
        return None
    told = asdict(run)
    for point in told["points"]:
        point["runs"] = [
            {key: value for key, value in each.items() if value not in
             (None, {}, "")}
            for each in point["runs"]
        ]
    return told


def _script(told: dict[str, Any]) -> str:
    """JSON for a script to read; nothing in it can end the element."""
    text = json.dumps(told, ensure_ascii=False, separators=(",", ":"))
    text = text.replace("<", "\\u003c")
    return f'<script type="application/json">{text}</script>'


def _render(text: str, md: Any) -> str:
    """Filters for the page's charts, and a place for a results.json."""
    options.parse(text, [])
    ident = uid(md, "compare servers")
    buttons = "".join(
        f'<button type="button" class="md-button" aria-pressed="false" '
        f'data-servers="{escape(" ".join(names))}">{escape(words)}</button>'
        for words, names in presets().items()
    )
    boxes = "".join(
        f'<label><input type="checkbox" checked value="{server.name}"> '
        f"<span><strong>{server.name}</strong> "
        f"<small>{escape(server.title)}</small></span></label>"
        for server in SERVERS
    )
    told = {**rules(), "own": embedded(data.own())}
    return (
        f'<div class="seven-compare" id="{ident}" data-search-exclude>'
        '<p class="seven-compare-plain">With a script, servers can be '
        "chosen here. Without one you see them all, and "
        "<code>./bench.sh</code> builds this site with your own numbers "
        "in it.</p>"
        '<div class="seven-compare-live" hidden>'
        '<fieldset class="seven-filter"><legend>Which servers?</legend>'
        f'<div class="seven-presets">{buttons}</div>'
        f'<div class="seven-choices">{boxes}</div>'
        '<p class="seven-shown" role="status"></p></fieldset>'
        '<fieldset class="seven-drop"><legend>Your laptop against ours'
        "</legend>"
        f'<p><label for="{ident}-file">Drop a <code>results.json</code> '
        "of your own <code>./bench.sh</code> anywhere on this page, or "
        "choose it:</label> "
        f'<input type="file" id="{ident}-file" '
        'accept=".json,application/json"></p>'
        "<p><small>It is read here, in your browser, and drawn beside the "
        "reference. Nothing is uploaded.</small></p>"
        '<p class="seven-said" role="status"></p>'
        '<p><button type="button" class="md-button seven-remove" hidden>'
        "Remove my results</button></p></fieldset></div>"
        f"{_script(told)}</div>"
    )


compare = fence(_render)
