"""The lab about coroutine servers, with the load of 2010."""
