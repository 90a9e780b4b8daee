"""Three hosts behind a balancer, on one machine: ``./bench.sh hosts``.

Each run is a process of its own (``python -m tools.bench.hosts``) in
namespaces of its own, and whatever it starts ends with it.
"""
