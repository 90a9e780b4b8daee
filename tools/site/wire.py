"""Captured bytes with each field explained."""

from typing import Any

from tools.site.fence import fence


def _render(text: str, md: Any) -> str:
    """Captured bytes with each field explained."""
    return '<p class="seven-todo">wire</p>'


wire = fence(_render)
