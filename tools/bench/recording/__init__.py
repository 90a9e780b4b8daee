"""How ``./bench.sh record`` watches a server: clients, calls, timeline."""
