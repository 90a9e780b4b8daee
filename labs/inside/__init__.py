"""The lab "Look inside a running server"."""
