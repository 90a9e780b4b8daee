"""Where the system lacks what Windows lacks: 01 to 06 serve all the same."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.process import PYTHON, started
from tools.common.raw_client import GET, GET_CLOSE
from tools.servers import ROOT, SERVERS, SKETCHES, Server

LACKING = Path(__file__).with_name("lacking.py")
HEADS = (
    (GET_CLOSE, 200), (GET_CLOSE.replace(b"GET /", b"GET /missing"), 404),
    (GET_CLOSE.replace(b"GET", b"BREW"), 501), (b"nonsense\r\n\r\n", 400),
)
EARLY = [
    each for each in (*SERVERS, *SKETCHES)
    if each.step < 7 and "os.fork" not in each.path.read_text()
]


@pytest.mark.parametrize("each", EARLY, ids=lambda each: f"no-{each.name}")
def test_serves_all_the_same(each: Server) -> None:
    with started(each, through=(PYTHON, str(LACKING))) as process:
        if process.sketch:
            with process.client(GET) as client:
                assert client.rest().endswith(b"hello\n")
            return
        for head, status in HEADS[: 3 if each.step == 1 else 4]:
            with process.client(head) as client:
                assert client.response().status == status
        process.signal(15)
        process.assert_ends()
        count = 3 if each.step == 1 else 4
        assert process.closing.startswith(f"Answered {count} requests on ")
        assert process.closing.endswith("peak memory unknown\n")


@pytest.mark.parametrize("file", ["server.py", "sketch.py"])
def test_07_says_what_it_needs(file: str) -> None:
    path = ROOT / "07_parallel" / file
    done = subprocess.run(
        [sys.executable, str(LACKING), PYTHON, str(path)], capture_output=True,
        text=True, check=False,
    )
    assert done.returncode == 1
    assert done.stderr == (
        "step 07 needs os.fork: Linux, macOS, or WSL on Windows\n"
    )
