"""Exercise 04.2: find the bottleneck.

Write an answer in place of each None. The task: task.md
"""

# A to D are the files a.txt to d.txt. A request is *in service* from
# `read` to `answered`. How many are it at the same moment, at most?
AT_ONCE_A = None
AT_ONCE_B = None
AT_ONCE_C = None
AT_ONCE_D = None

# At the moment when client 1 is answered, how many clients have sent
# their request and are not accepted yet?
NOT_ACCEPTED_A = None
NOT_ACCEPTED_C = None

# Which server was it: "02", "03", "03-pool" or "04"?
SERVER_A = None
SERVER_B = None
SERVER_C = None
SERVER_D = None

# The last client of A and of B: how many milliseconds pass from `sent`
# to `done`, and how many of these before its request is read?
LAST_A = None
UNREAD_A = None
LAST_B = None
UNREAD_B = None

# What does the last client wait for, most of its time? Write one of
#   "one at a time"      nobody else is accepted while one is served
#   "work in the loop"   all are accepted, but work stops the loop
#   "too few threads"    the work overlaps, until no thread is free
#   "its own work"       nothing holds it up
BOTTLENECK_A = None
BOTTLENECK_B = None
BOTTLENECK_C = None
BOTTLENECK_D = None

# The same with 40 clients: after how many milliseconds is the last one
# done, more or less?
LAST_OF_40_A = None
LAST_OF_40_B = None
LAST_OF_40_C = None
LAST_OF_40_D = None
