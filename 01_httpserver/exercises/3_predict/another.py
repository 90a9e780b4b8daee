"""Exercise 01.3: predict two rows of the table.

Worked out from what is known: the delay, and Little's law.
"""

DELAY = 0.1  # seconds

# One request is in progress at a time, however many clients ask.
RATE_1_CLIENT = 1 / DELAY
RATE_10_CLIENTS = RATE_1_CLIENT
RATE_100_CLIENTS = RATE_1_CLIENT

# Clients in the system = throughput x latency.
MEDIAN_10_CLIENTS = 10 / RATE_10_CLIENTS
FIRST_OF_100 = DELAY
LAST_OF_100 = 100 / RATE_100_CLIENTS

THREADS = 1
BUSY = 0
PAGE_SIZE = 249  # bytes: curl -s http://127.0.0.1:8000/ | wc -c
HTML_OF_1000 = 1000 * PAGE_SIZE

RATE_BY_HAND = RATE_1_CLIENT
