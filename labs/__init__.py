"""Each lab in a room of its own: what is measured, what measures it."""
