"""Exercise 01.3: predict two rows of the table.

Write a number in place of each None. The task: task.md
"""

# Server 01, --delay 0.1. Answers a second, with so many clients:
RATE_1_CLIENT = 10  # one request takes 0.1 s: 1 / 0.1
RATE_10_CLIENTS = 10  # one at a time, so it is the same
RATE_100_CLIENTS = 10  # and for a hundred

# How many seconds half of the answers take at most, with ten clients
# that ask again as soon as they have their answer:
MEDIAN_10_CLIENTS = 1.0  # nine others, each time, and its own 0.1 s

# A hundred clients come at the same moment. After how many seconds has
# the first its answer, after how many the last?
FIRST_OF_100 = 0.1  # nobody is before it
LAST_OF_100 = 10.0  # 100 waits of 0.1 s, its own is the last

# How many threads has the server while these hundred wait?
THREADS = 1

# What part of the time is the processor at work for this server, with
# ten clients? 0 is never, 1 is always.
BUSY = 0.01  # it sleeps; this is a problem of waiting

# ab -n 1000: how many bytes of HTML come in all?
HTML_OF_1000 = 249_000  # the page has 249, ab does not count heads here

# Server 02 does by hand what the library does here. It handles one
# connection after the other as well, and needs about half the processor
# time for a request. Answers a second, with ten clients:
RATE_BY_HAND = 10  # nobody waits for the processor
