"""Three hosts behind a balancer, on one machine: ``./bench.sh hosts``."""
