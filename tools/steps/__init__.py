"""The simulated kernel: a file runs unchanged, each step written down."""
