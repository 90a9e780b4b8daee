"""Three hosts behind a balancer, on one machine: ``./bench.sh hosts``.

`measure` is the command. It runs each case as a process of its own
(``python -m labs.hosts``) in namespaces of its own, so all that a case
starts and changes is gone when that process ends.
"""
