"""The lab "How many can it hold": ``./bench.sh hold``."""
