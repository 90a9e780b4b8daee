"""Exercise 01.3: predict two rows of the table.

Write a number in place of each None. The task: task.md
"""

# Server 01, --delay 0.1. Answers a second, with so many clients:
RATE_1_CLIENT = None
RATE_10_CLIENTS = None
RATE_100_CLIENTS = None

# How many seconds half of the answers take at most, with ten clients
# that ask again as soon as they have their answer:
MEDIAN_10_CLIENTS = None

# A hundred clients come at the same moment. After how many seconds has
# the first its answer, after how many the last?
FIRST_OF_100 = None
LAST_OF_100 = None

# How many threads has the server while these hundred wait?
THREADS = None

# What part of the time is the processor at work for this server, with
# ten clients? 0 is never, 1 is always.
BUSY = None

# ab -n 1000: how many bytes of HTML come in all?
HTML_OF_1000 = None

# Server 02 does by hand what the library does here. It handles one
# connection after the other as well, and needs about half the processor
# time for a request. Answers a second, with ten clients:
RATE_BY_HAND = None
