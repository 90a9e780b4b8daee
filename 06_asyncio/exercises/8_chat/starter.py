"""Exercise 06.8: from an empty file, a chat.

Run it:     python3 server.py
The task:   task.md
"""
