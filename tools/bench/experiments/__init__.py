"""The experiments of ``./bench.sh NAME``, a module each."""
