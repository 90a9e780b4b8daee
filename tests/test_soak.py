"""A short soak: mixed clients, good and bad, and killed workers.

``./bench.sh soak`` does the same for a quarter of an hour.
"""

import pytest

from tests.marks import rule, slow
from tests.process import running
from tools.bench.experiments.soak import soak
from tools.servers import Server

SECONDS = 8.0


@slow
@pytest.mark.thorough
@rule("reset", range(7, 8))
def test_soak(server: Server) -> None:
    # running() looks at stderr and the exit status in the end.
    with running(server) as process:
        workers = process.processes()[1:]
        # Tests run side by side, so an answer may take its time.
        report = soak(
            process.port, process.pid, SECONDS, seed=7, clients=16, patience=60
        )
        assert report.faults == []
        assert report.answered > 0 and report.cut_by_client > 0
        if workers:  # not where they are threads
            assert report.kills > 0
