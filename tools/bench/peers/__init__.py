"""Other people's web servers with the same page; `start` runs them.

Started by their own Python (``.venv-peers``), which has none of the
bench's packages: the files ``on_NAME.py`` import only `page`.
"""
