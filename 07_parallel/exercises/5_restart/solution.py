"""Exercise 07.5: this restart loses requests: find the setting.

Run it:     python3 settings.py
The task:   task.md
"""

from restart import show

# The balancer: with `http` its check asks for /healthz, else it only
# connects. A host is out after `fall` failed checks, and in again after
# `rise` good ones.
# A host, after SIGTERM: it is a lame duck, then it closes its listener
# and gives requests in progress a time of grace. The next host gets its
# SIGTERM when this one listens again, and a pause has passed.
# All times are in seconds.

# Refused: out after fall * check_every, 6 s; so long it must serve.
A = {
    "http": True, "check_every": 2.0, "fall": 3, "rise": 2,
    "lame_duck": 7.0, "grace": 5.0, "pause": 10.0,
}

# Cut off: begun before it was out, 3 s, and 3 s long; 4 s were over.
B = {
    "http": True, "check_every": 1.0, "fall": 3, "rise": 2,
    "lame_duck": 4.0, "grace": 5.0, "pause": 10.0,
}

# Nobody left: in again only after rise * check_every, 8 s.
C = {
    "http": True, "check_every": 2.0, "fall": 2, "rise": 4,
    "lame_duck": 5.0, "grace": 5.0, "pause": 10.0,
}

# Refused: who only connects never hears of the lame duck.
D = {
    "http": True, "check_every": 1.0, "fall": 3, "rise": 2,
    "lame_duck": 5.0, "grace": 5.0, "pause": 10.0,
}

if __name__ == "__main__":
    for name, settings in {"A": A, "B": B, "C": C, "D": D}.items():
        show(name, settings)
