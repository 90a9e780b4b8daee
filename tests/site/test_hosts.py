"""The figures of the lab with several hosts."""

import re
from xml.etree import ElementTree

import pytest

from tests.site.conftest import Render
from tests.site.sample import Committed
from tools.bench.hosts import storm
from tools.data.results import Point, Run
from tools.servers import ROOT

BARS = """\
```hosts
title: Lost & found
part: death
figure: failed
rows: often = 06[{bar}: often]; rare = 06[{bar}: <rare>]
bars: kill; cable
```"""
TABLE = BARS.replace("part: death", "part: death\nshow: table").replace(
    "rows: often = 06[{bar}: often]; rare = 06[{bar}: <rare>]",
    "point: 06[{bar}: {row}]\nrows: often; <rare>",
)
SECONDS = """\
```hosts
title: Storm
part: storm
show: seconds
rows: none = 03-pool[none]; a bound = 03-pool[a bound]
```"""
TEXTS = """\
```hosts
title: Seen
part: seen
show: texts
point: 06[told]
rows: a line; nothing
```"""
LOST = {"kill: often": 4, "cable: often": 8, "kill: <rare>": 20}
TOLD = {"a line": "PROXY <1>\r\n", "nothing": "GET /\r\n"}


def point(server: str, suite: str, variant: str, run: Run) -> Point:
    return Point(
        server, f"hosts-{suite}", 0, 0.1, variant=variant, runs=[run]
    )


@pytest.fixture(autouse=True)
def hosts(committed: Committed) -> None:
    skipped = Point(
        "06", "hosts-death", 0, 0.1, variant="cable: <rare>",
        status="skipped", reason="no <cable>",
    )
    committed.save(
        "hosts", skipped,
        *(
            point("06", "death", name, Run("c", failed=lost))
            for name, lost in LOST.items()
        ),
        *(
            point("03-pool", "storm", name, Run("c", series={
                "sent": [100.0, 200.0, 100.0], "good": good,
            })) for name, good in (
                ("none", [100.0, 50.0, 0.0]),
                ("a bound", [100.0, 150.0, 100.0]),
            )
        ),
        point("06", "seen", "told", Run("c", texts=TOLD)),
    )  # fmt: skip


def drawing(html: str) -> ElementTree.Element:
    found = re.search(r"<svg.*</svg>", html, re.S)
    assert found
    return ElementTree.fromstring(found[0])


def table(html: str) -> list[list[str]]:
    return [
        re.findall(r"<t[hd][^>]*>([^<]*)", row)
        for row in html.split("<tr>")[1:]
    ]


def test_a_bar_each(render: Render) -> None:
    html = render(BARS)
    assert "Lost &amp; found" in html
    assert "from above: kill, cable" in html
    widths = re.findall(r'class="seven-bar"[^>]* width="([^"]*)"', html)
    assert widths == ["20%", "40%", "100%"]
    assert "\u2013 no &lt;cable&gt;</text>" in html
    assert "often kill 4, cable 8;" in html


def test_a_table_of_the_same(render: Render) -> None:
    assert table(render(TABLE)) == [
        ["What", "kill", "cable"],
        ["often", "4", "8"],
        ["&lt;rare&gt;", "20", "\u2013"],
    ]


def test_seconds(render: Render) -> None:
    """Lines with a shape each second, a letter each, and words."""
    html = render(SECONDS)
    svg = drawing(html)
    (words,) = (each.text for each in svg if each.tag == "desc")
    assert words == (
        "Requests, in each second: 100, 200, 100. none, in each second: "
        "100, 50, 0. a bound, in each second: 100, 150, 100."
    )
    assert len(list(svg.iter("path"))) == 6
    letters = [
        e.text for e in svg.iter("text") if e.get("class") == "seven-value"
    ]
    assert letters == ["A", "B"]
    assert "A: none" in html and "B: a bound" in html
    assert table(html)[1:] == [
        ["0", "100", "100", "100"],
        ["1", "200", "50", "150"],
        ["2", "100", "0", "100"],
    ]
    # Most is at the top, none at the bottom.
    ends = {float(line.get("y2", "-1")) for line in svg.iter("line")}
    assert min(ends) == 0 and max(ends) == 240


def test_texts(render: Render) -> None:
    html = render(TEXTS)
    assert "<code>PROXY &lt;1&gt;</code>" in html
    assert html.index("a line") < html.index("nothing")


@pytest.mark.parametrize(("text", "why"), [
    (BARS.replace("[{bar}: often]", "[often]"), "0 points are 06[often]"),
    (TABLE.replace("table", "pie"), "show is bars, table, seconds, texts"),
    (SECONDS.replace("storm", "seen"), "hosts-seen"),
    (SECONDS.replace("storm", "death").replace(
        "none = 03-pool[none]; a bound = 03-pool[a bound]",
        "cable = 06[cable: <rare>]",
    ), "no seconds of 06[cable: <rare>]: no <cable>"),
    (BARS.replace("part: death", "part: slow"), "no points in hosts-slow"),
], ids=range(5))  # fmt: skip
def test_what_is_missing_ends_the_build_with_a_sentence(
    render: Render, text: str, why: str
) -> None:
    with pytest.raises(Exception, match=re.escape(why)):
        render(text)


def test_so_many_times_as_much(render: Render) -> None:
    text = "hosts:06[kill: often].hosts-death.failed"
    assert ">4<" in render(f"`#!num {text}`")
    assert ">400<" in render(f"`#!num 100 * {text}`")


def test_the_page_names_the_settings_of_the_storm() -> None:
    page = (ROOT / "docs" / "labs" / "hosts.md").read_text("utf-8")
    text = " ".join(page.split())
    case = storm.cases(smoke=False)[1]
    (usual, _), (spike, during), (_, after) = case.phases
    possible = case.hosts * storm.THREADS / case.delay
    assert f"can answer {possible:g} requests a second" in text
    assert f"Usually {usual:g} come, for {during:g} seconds {spike:g}" in text
    assert f"{after:g} seconds after the load was over" in text
    assert (case.timeout, case.tries) == (1, 3)
