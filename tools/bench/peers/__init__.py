"""Other people's web servers with the same page; `start` runs them.

Started by their own Python (``.venv-peers``), which has none of the
bench's packages: what it runs imports only files of this folder.
"""
