"""Exercise 07.4: predict the bench table.

The task:   task.md
"""

# So many are in progress at once, for 0.1 s each.
ONE, SIX, TEN = 1 / 0.1, 6 / 0.1, 10 / 0.1

# Ten clients, --delay 0.1: how many requests a second are answered?
RATES = {
    "01": ONE,
    "02": ONE,
    "03": TEN,
    "03-pool": TEN,
    "04": ONE,
    "05": TEN,
    "05-threads": TEN,
    "06": TEN,
    "06-executor": SIX,
    "06-protocol": TEN,
    "06-coroutines": TEN,
    "07": TEN,
    "07-emulated": TEN,
}

# Who answers a hundred clients that ask at once in about one delay?
OVERLAP = [
    "03", "05", "05-threads", "06", "06-protocol", "06-coroutines",
    "07", "07-emulated",
]

# Who has about a hundred threads when a hundred clients wait?
THREADS = ["03", "05-threads"]

# Who computes on two cores, if each request computes?
CORES = ["07", "07-emulated"]
