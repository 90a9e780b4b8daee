"""Exercises are judged by what their processes do."""

import pytest

from tools.common.launch import check_seen


@pytest.fixture(autouse=True)
def processes_are_seen() -> None:
    check_seen()
