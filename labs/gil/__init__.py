"""The lab about the GIL: what it lets threads share."""
