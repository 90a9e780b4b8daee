"""The lab about PythonPlus: a Condition in C, and three kinds of GIL."""
