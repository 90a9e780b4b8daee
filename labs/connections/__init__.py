"""The lab about more and more connections, to coroutine servers and 07."""
