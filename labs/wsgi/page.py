"""The numbered pages of `labs.chain` as a WSGI application."""

from collections.abc import Callable
from typing import Any

from labs.chain.number import page


def application(
    environ: dict[str, Any], start_response: Callable[..., object]
) -> list[bytes]:
    """One page, and a line of the log."""
    start_response("200 OK", [("Content-Type", "text/html")])
    return [page(environ["PATH_INFO"].encode("latin-1"))]
