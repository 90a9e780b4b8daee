"""Starts the sketches and servers of 01 to 06, and asks each for its page.

    python tests/anywhere/smoke.py

For systems that the tests do not know, such as Windows: it needs nothing
but Python. The sketches listen on port 8000, so that has to be free.
"""

import http.client
import os
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
SECONDS = 20.0  # for a server to start
NOT_SERVERS = ("web.py", "accepting.py", "clients.py", "lifecycle.py")


def page(port: int) -> str:
    """What GET / brings, as soon as the server is there."""
    until = time.monotonic() + SECONDS
    while True:
        try:
            connection = http.client.HTTPConnection("127.0.0.1", port, 10)
            connection.request("GET", "/")
            response = connection.getresponse()
            return f"{response.status} {len(response.read())}"
        except OSError as error:
            if time.monotonic() > until:
                return f"no response: {error}"
            time.sleep(0.1)


def main() -> int:
    """Try each file; 1 if one of them does not serve."""
    failed = 0
    for path in sorted(ROOT.glob("0[1-6]_*/*.py")):
        sketch = path.name == "sketch.py"
        forks = "os.fork" in path.read_text("utf-8")
        if path.name in NOT_SERVERS or (forks and not hasattr(os, "fork")):
            continue
        words = [sys.executable, str(path)]
        port = 8000 if sketch else 8001
        if not sketch:
            words += ["--port", str(port)]
        process = subprocess.Popen(words, stdout=subprocess.DEVNULL)
        try:
            found = page(port)
        finally:
            process.kill()
            process.wait()
        good = found == ("200 6" if sketch else "200 249")
        failed += not good
        print("good" if good else "BAD ", path.relative_to(ROOT), found)
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
