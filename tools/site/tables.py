"""Tables of measured figures, as HTML."""

import json
from html import escape

from tools.data.results import Point, Results
from tools.servers import LESSONS, Server
from tools.site.errors import SiteError
from tools.site.figures import (
    DASH,
    figure,
    machine_fact,
    required,
    spread,
    value,
)

COLUMNS: tuple[str, ...] = (
    "requests_per_second", "share", "p50", "p99", "failures", "cpu_ms",
    "peak_memory", "threads",
)


def table(
    head: list[str],
    body: list[list[str]],
    label: str = "",
    servers: list[str] | None = None,
) -> str:
    """A table that scrolls by itself where the page is too narrow.

    The first cell of a row is its heading. Cells are HTML, the head is
    plain text. servers: the server of each row, for what chooses rows.
    """
    top = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    names = servers or [""] * len(body)
    rows = "".join(
        (f'<tr data-server="{escape(name)}">' if name else "<tr>")
        + f'<th scope="row">{row[0]}</th>'
        + "".join(f"<td>{cell}</td>" for cell in row[1:])
        + "</tr>"
        for name, row in zip(names, body, strict=True)
    )
    name = escape(label or "Table")
    return (
        f'<div class="seven-table" role="group" tabindex="0" '
        f'aria-label="{name}"><table><thead><tr>{top}</tr></thead>'
        f"<tbody>{rows}</tbody></table></div>"
    )


def measured(
    uid: str,
    rows: list[tuple[Server, Point, Point | None]],
    mark: str | None,
    failed_ok: bool,
    caption: str,
    with_own: bool,
    columns: tuple[str, ...] = COLUMNS,
    clients: int | None = None,
) -> str:
    """The load generator's figures of servers, a row each.

    The reader's own stand in a second row below. A point without a
    possible number of requests has no share. clients: the load asked
    for, None if any. What the figure says in data-table is all that a
    script needs to add such rows.
    """
    shown = tuple(
        name
        for name in columns
        if name != "share" or any(p.possible for _, p, _ in rows)
    )
    body, servers = [], []
    for server, point, own in rows:
        name = f"<strong>{server.name}</strong>"
        if server.name == mark:
            name += " this step"
        body.append(_row(name, point, shown, strict=not failed_ok))
        servers.append(server.name)
        if with_own:
            body.append(_row("yours", own, shown, strict=False))
            servers.append(server.name)
    head = ["Server", *(figure(name).label for name in shown)]
    commands = _commands([point for _, point, _ in rows])
    told = {"suite": rows[0][1].suite, "clients": clients, "columns": shown}
    return (
        f'<figure class="seven-measured" id="{uid}" data-search-exclude '
        f'data-table="{escape(json.dumps(told))}">'
        f"{table(head, body, 'What was measured', servers)}"
        f"<figcaption>{caption}{commands}</figcaption></figure>"
    )


def _row(
    name: str, point: Point | None, columns: tuple[str, ...], strict: bool
) -> list[str]:
    cells = [name]
    for column in columns:
        if point is None:
            cells.append(DASH)
            continue
        found = value(point, column)
        if found is None and strict:
            found = required(point, column)
        cells.append(_cell(point, column, found))
    if point is not None and point.reason and point.status != "ok":
        cells[0] += f"<br><small>{escape(point.reason)}</small>"
    return cells


def _cell(point: Point, column: str, found: float | None) -> str:
    if found is None:
        return DASH
    write = figure(column).write
    cell = write(found)
    low_high = spread(point, column)
    if column == "requests_per_second" and low_high is not None:
        low, high = (write(v) for v in low_high)
        cell += f"<br><small>{low} to {high}</small>"
    return cell


def _commands(points: list[Point]) -> str:
    """The commands that measured, each once, folded away."""
    found = [point.runs[0].command for point in points if point.runs]
    lines = "\n".join(escape(line) for line in dict.fromkeys(found))
    if not lines:
        return ""
    word = "command" if "\n" not in lines else "commands"
    return (
        f'<details class="seven-data"><summary>The {word}</summary>'
        f'<pre tabindex="0"><code>{lines}</code></pre></details>'
    )


def machine(run: Results, own: Results | None) -> str:
    """Where and how the reference, and the reader's run, were measured."""
    facts = {
        "Processor": "cpu", "Cores": "cores", "Memory": "memory",
        "Kernel": "kernel", "Python": "python", "Tools": "tools",
        "Open files at most": "open_files", "Date": "date",
        "Command": "command", "Minutes it took": "minutes",
        "Commit": "commit",
    }
    head = ["What", "Reference"] + (["Yours"] if own else [])
    body = []
    for label, name in facts.items():
        row = [label, escape(machine_fact(run, name))]
        if own is not None:
            row.append(escape(machine_fact(own, name)))
        body.append(row)
    return table(head, body, "Where the numbers were measured")


def lessons(servers: list[Server], uid: str, caption: str) -> str:
    """What each server can do that the one before could not."""
    head = ["What it can do", *(server.name for server in servers)]
    body = []
    for key, words in LESSONS.items():
        row = [escape(words)]
        for server in servers:
            answer = server.lessons[key]
            kind = answer.split()[0]
            row.append(
                f'<span class="seven-{kind}">{escape(answer)}</span>'
            )
        body.append(row)
    return (
        f'<figure class="seven-seen" id="{uid}">'
        f"{table(head, body, 'What each server can do')}"
        f"<figcaption>{caption}</figcaption></figure>"
    )


def raw_output(text: str, heading: str) -> str:
    """What the load generator printed, unchanged."""
    if not text.strip():
        raise SiteError("the raw output is empty")
    return (
        f'<details class="seven-raw"><summary>{escape(heading)}</summary>'
        f'<pre tabindex="0"><code>{escape(text)}</code></pre></details>'
    )
