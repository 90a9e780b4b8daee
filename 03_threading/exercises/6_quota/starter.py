"""Exercise 03.6: from an empty file, a quota for each key.

Run it:     python3 server.py --quota 2
The task:   task.md
"""
