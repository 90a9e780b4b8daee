"""What a load generator reports, ab and wrk alike."""

from dataclasses import dataclass, field


class NoFigures(Exception):
    """An output without figures. The text is a sentence that says why.

    ``requests``: how many requests had been completed before.
    """

    def __init__(self, sentence: str, requests: int = 0) -> None:
        super().__init__(sentence)
        self.requests = requests


@dataclass
class Report:
    """What an output says. Times in ms where the name says so, else s.

    requests: answers that came completely and in time, non-2xx ones
    included; failed: requests that failed, each counted once; per_second:
    answers a second; finished: False if the generator was interrupted;
    response_bytes: head and body, the mean; kept_alive: requests whose
    connection stayed open; body_bytes and kept_alive are ab's alone,
    errors (failures by kind: connect, read, write, timeout) is wrk's.
    """

    requests: int
    failed: int
    non_2xx: int
    seconds: float
    per_second: float
    response_bytes: float | None
    finished: bool
    latency_ms: dict[str, float] = field(default_factory=dict)
    body_bytes: int | None = None
    kept_alive: int = 0
    errors: dict[str, int] = field(default_factory=dict)
