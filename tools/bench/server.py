"""One server while it is measured: `Launched`, and the page it sends."""

import http.client
import socket
import sys
from collections.abc import Sequence
from pathlib import Path

from tools.common.launch import READY_SECONDS, Launched, LaunchError, scrub
from tools.servers import Server

HOST = "127.0.0.1"
RESPONSE_SECONDS = 10.0  # for one response before measuring
ServerError = LaunchError  # a server that does not start or respond


class Running(Launched):
    """A running web server of any kind, with its worker processes."""

    def __init__(
        self, words: Sequence[str], cwd: Path | None = None, port: int = 0
    ) -> None:
        """Start it in the folder cwd and wait until it is ready.

        port: ready is when it listens there; 0: when it says so, in the
        line that names its port. Raises ServerError.
        """
        super().__init__(words, cwd=cwd)
        self.command = " ".join(words)  # to start it by hand
        try:
            self.port = self.wait_until_ready(READY_SECONDS, port)
        except BaseException:
            self.stop()
            raise
        self.url = f"http://{HOST}:{self.port}/"

    def warm_up(self, requests: int) -> None:
        """Send a few ordinary requests. Raises ServerError."""
        for _ in range(requests):
            self._get()

    def check_page(self, body: bytes, **fields: str) -> None:
        """See that GET / is answered with this page, and these fields.

        Raises ServerError.
        """
        found, page = self._get()
        if page != body:
            raise ServerError(
                f"GET / is answered with another page ({len(page)} bytes "
                f"instead of {len(body)})"
            )
        for name, value in fields.items():
            name = name.replace("_", "-")
            if found.get(name) != value:
                raise ServerError(
                    f"GET / is answered with {name}: "
                    f"{found.get(name, 'none')} instead of {value}"
                )

    def _get(self) -> tuple[http.client.HTTPMessage, bytes]:
        """The header fields and the body of GET /. Raises ServerError."""
        client = http.client.HTTPConnection(
            HOST, self.port, timeout=RESPONSE_SECONDS
        )
        try:
            client.request("GET", "/")
            response = client.getresponse()
            body = response.read()
        except (OSError, http.client.HTTPException) as error:
            why = f"GET / has no good response: {scrub(str(error))}"
            if self.status() is not None:
                why = f"the server died: {self.last_words()}"
            raise ServerError(why) from error
        finally:
            client.close()
        if response.status != 200:
            raise ServerError(
                f"GET / is answered with status {response.status}"
            )
        return response.msg, body


def start(
    server: Server, delay: float, options: Sequence[str] = (),
    python: str = sys.executable,
) -> Running:
    """A fresh server on a free port: a context that stops it at the end.

    delay: seconds a request waits; options: more for its command line;
    python: the interpreter. Raises ServerError.
    """
    if not server.path.is_file():
        raise ServerError(f"there is no {server.file}")
    words = ["--delay", f"{delay:g}", *server.options, *options]
    process = Running([python, str(server.path), "--port", "0", *words])
    shown = ["python3", server.file, *words, "--port", str(process.port)]
    process.command = " ".join(shown)
    return process


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server((HOST, 0)) as listener:
        port: int = listener.getsockname()[1]
        return port
