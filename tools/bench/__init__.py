"""Measures the servers: ``./bench.sh``, or ``python -m tools.bench``."""
