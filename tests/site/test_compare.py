"""The page Compare as it is built: its controls, and what it claims."""

import pytest

from tests.site.conftest import Render
from tools.data.results import REFERENCE, load
from tools.servers import SERVERS
from tools.site import compare, figures


def test_every_server_is_in_one_family() -> None:
    presets = compare.presets()
    every = sorted(server.name for server in SERVERS)
    assert sorted(presets.pop("all")) == every
    steps, variants = presets.pop("the seven steps"), presets.pop(
        "the variants")  # fmt: skip
    assert sorted(steps + variants) == every and len(steps) == 7
    assert list(presets) == [
        "wait one at a time", "threads", "event loops", "many cores"
    ]
    assert sorted(n for names in presets.values() for n in names) == every
    assert presets["wait one at a time"] == ["01", "02", "04"]
    assert "06-executor" in presets["threads"]  # its waits are in threads


def test_the_controls(render: Render) -> None:
    html = render("```compare\n```")
    assert 'class="seven-compare-live" hidden' in html
    assert html.count('type="checkbox" checked') == len(SERVERS)
    assert html.count('role="status"') == 1


def of_all(suite: str, name: str, clients: int) -> dict[str, float]:
    """A figure of the reference, by server."""
    return {
        point.server: figures.required(point, name)
        for point in load(REFERENCE).suite(suite)
        if point.clients == clients
    }


def test_what_the_page_says_of_ours() -> None:
    """Claims in words about the reference; a new one must keep them."""
    rates = of_all("classic", "requests_per_second", 10)
    requests = of_all("classic", "requests", 10)
    half = of_all("classic", "p50", 10)
    for name, article in {"02": 9.96, "04": 9.95}.items():  # no difference
        assert rates[name] == pytest.approx(article, rel=0.01)
    assert rates["01"] > 9.8
    quick = {"03": 90.21, "05-threads": 90.31, "06": 82.91}
    for name, article in quick.items():
        assert article < rates[name] <= 98.1  # above it, below the limit
        assert requests[name] == 500  # "51 delays"
        assert half[name] <= 104  # "close to ours"
    calls = of_all("syscalls", "calls_per_request", 50)
    assert [name for name, value in calls.items() if value < 1] == ["07"]
    p99 = of_all("many", "p99", 100)
    serial = [p99.pop(name) for name in ("01", "02", "04")]
    assert min(serial) > max(p99.values())


def test_our_servers_ask_for_the_queue_the_page_names() -> None:
    for folder in {server.path.parent for server in SERVERS}:
        text = (folder / "web.py").read_text(encoding="utf-8")
        assert "BACKLOG = 4096" in text, folder  # "a queue of 4,096"
