"""The lab about a database instead of a sleep."""
