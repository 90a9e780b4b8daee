"""The playground of the model: the fences ``whatif`` and ``whatifmisses``.

Without a script it is the picture of the default setting; all that
docs/assets/what-if.js draws comes from docs/assets/model.js.
"""

import itertools
import json
import math
from typing import Any

from markupsafe import Markup

from tools.model import model
from tools.servers import Server, by_name
from tools.site import charts, data, elements, svg
from tools.site.errors import SiteError
from tools.site.fence_call import fence, uid
from tools.site.figures import DASH
from tools.site.sweep_chart import HEIGHT, SHAPES, clients_axis
from tools.site.template import html

# The kinds that can be chosen, and the server that each is measured with.
KINDS = {
    "02": "one at a time", "03": "a thread each", "03-pool": "a pool",
    "05": "a loop with timers", "06": "asyncio", "07": "workers on all cores",
}
SHOWN = ("02", "03-pool", "06")  # in the picture
WAIT = 0.1  # seconds, as in the sweep
MOST = 10_000  # clients
LOW, TOP = 1.0, 100_000.0  # requests/s, of the axis
MISS = 0.1  # from here on a point is marked
CHANGED = 1.05  # a change of the cost from here on is one


def _facts(server: Server) -> dict[str, Any]:
    """What the script needs of a server."""
    run, name = data.reference(), server.name
    try:
        compute = model.cost(run, server)
    except KeyError:
        raise SiteError(f"the reference has no sweep of {name}") from None
    missed = model.misses(run, server)
    how = model.shape(server)
    return {
        "name": name, "kind": KINDS[name], "step": server.step,
        "mark": SHAPES[server.step], "compute": compute,
        "threads": how.threads, "cores": how.cores,
        "points": [
            [n, p.median("requests_per_second"), missed[n]]
            for n, p in model.rates(run, server).items()
        ],
        "own": [
            [p.clients, p.median("requests_per_second"), 0]
            for p in data.beside_points("sweep", name)
            if p.median("requests_per_second")
        ],
    }


def _playground(chosen: dict[str, str], md: Any) -> str:
    servers = [_facts(by_name(name)) for name in KINDS]
    load = model.load_cost(data.reference())
    facts = {
        "servers": servers, "load": load,
        "wait": WAIT, "most": MOST, "low": LOW, "top": TOP,
        "height": HEIGHT, "shown": SHOWN,
    }
    text = json.dumps(facts, separators=(",", ":")).replace("<", "\\u003c")
    ident = uid(md, "playground")
    chart = charts.frame(
        f"{ident}-chart", chosen["title"],
        [],
        _picture(ident, chosen["title"], servers, load),
        _table(servers, load), chosen["caption"],
    )
    return html(
        "whatif", ident=ident, chart=Markup(chart), data=Markup(text),
    )


def _rates(each: dict[str, Any], load: float) -> list[float]:
    """The model's curve of a server: requests/s for 1, 2, ... clients."""
    how = model.Shape(each["threads"], each["cores"])
    return model.closed(how, WAIT, each["compute"], MOST, load)


def _picture(
    ident: str, title: str, servers: list[dict[str, Any]], load: float
) -> str:
    """The curves of the servers in SHOWN, with their measured points."""
    parts = [clients_axis(HEIGHT), svg.label("requests/s", -50, -6, "tick")]
    for rate in svg.powers(LOW, TOP, 10):
        y = _y(rate)
        parts.append(svg.line(("0", "100%"), (y, y), "seven-grid"))
        parts.append(svg.label(f"{rate:,.0f}", -12, y + 4, "tick", "end"))
    for clients in svg.powers(1, MOST, 10):
        parts.append(svg.column(_x(clients), HEIGHT, f"{clients:,.0f}"))
    for each in servers:
        if each["name"] not in SHOWN:
            continue
        curve = _rates(each, load)
        at = [*(2**n for n in range(14)), MOST]
        lines = "".join(
            svg.line((_x(a), _x(b)), (_y(curve[a - 1]), _y(curve[b - 1])))
            for a, b in itertools.pairwise(at)
        )
        marks = "".join(
            svg.at(_x(n), _y(rate), svg.element("path", d=each["mark"]))
            for n, rate, _ in each["points"]
        )
        kind = f"seven-line seven-step{each['step']}"
        parts.append(svg.element("g", lines + marks, class_=kind))
        name = svg.label(each["name"], 6, 4, "value")
        parts.append(svg.at("100%", _y(curve[-1]), name))
    about = "Requests per second over clients, by the model and measured."
    return svg.chart(
        f"{ident}-chart", title, about, HEIGHT + 46, "".join(parts), "sweep"
    )


def _x(clients: float) -> str:
    return svg.percent(math.log(clients) / math.log(MOST))


def _y(rate: float) -> float:
    part = math.log(rate / LOW) / math.log(TOP / LOW)
    return round(8 + (HEIGHT - 8) * (1 - part), 1)


def _table(servers: list[dict[str, Any]], load: float) -> str:
    """What the curves say at the measured points, and what was measured."""
    shown = [each for each in servers if each["name"] in SHOWN]
    curves = [_rates(each, load) for each in shown]
    points = [{n: rate for n, rate, _ in each["points"]} for each in shown]
    heads = [
        words for each in shown
        for words in (f"{each['name']} model", f"{each['name']} measured")
    ]
    rows = [
        [f"{n:,}", *(
            words for curve, found in zip(curves, points, strict=True)
            for words in (
                f"{curve[n - 1]:,.0f}",
                f"{found[n]:,.0f}" if n in found else DASH,
            )
        )]
        for n in sorted({n for found in points for n in found})
    ]
    return elements.table(["Clients", *heads], rows)


def _misses(chosen: dict[str, str], md: Any) -> str:
    """The measured points that the model misses, and what is known of why."""
    run = data.reference()
    rows = []
    for name in KINDS:
        server = by_name(name)
        known, points = model.cost(run, server), model.rates(run, server)
        for clients, miss in model.misses(run, server).items():
            if abs(miss) > MISS:
                cost = (points[clients].median("cpu_ms") or 0.0) / 1000
                rate = points[clients].median("requests_per_second")
                rows.append([
                    name, f"{clients:,}", f"{rate:,.0f}",
                    f"{100 * miss:+.0f} %", f"{1000 * cost:.3f}",
                    f"{1000 * known:.3f}", _why(miss, cost / known),
                ])
    return elements.figure(
        uid(md, "misses"), "measured",
        elements.table(
            ["Server", "Clients", "requests/s", "Model", "CPU, ms",
             f"at {model.KNOWN}, ms", "Why"], rows,
        ),
        chosen["caption"],
    )


def _why(miss: float, change: float) -> str:
    """What the CPU per request says of a miss; change: 1.1 is 10 % more."""
    if miss > 0:
        return "costs more here" if change > CHANGED else "not the CPU"
    return "costs less here" if change < 1 / CHANGED else "not the CPU"


whatif = fence(_playground, "title caption")
whatifmisses = fence(_misses, "caption")
