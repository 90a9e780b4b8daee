"""Exercise 07.4: predict the bench table.

The task:   task.md
"""

# Ten clients, --delay 0.1: how many requests a second are answered?
RATES = {
    "01": 10,
    "02": 10,
    "03": 10,
    "03-pool": 10,
    "04": 10,
    "05": 10,
    "05-threads": 10,
    "06": 10,
    "06-executor": 10,
    "06-protocol": 10,
    "06-coroutines": 10,
    "07": 10,
    "07-emulated": 10,
}

# Who answers a hundred clients that ask at once in about one delay?
OVERLAP = ["03"]

# Who has about a hundred threads when a hundred clients wait?
THREADS = ["03", "03-pool"]

# Who computes on two cores, if each request computes?
CORES = ["03"]
