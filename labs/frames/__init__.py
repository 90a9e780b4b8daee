"""The lab about large frames, and who copies them."""
