"""Page elements made from data and source files, for the site.

``fences`` holds what mkdocs.yml names: fences for pymdownx.superfences and
the inline formatter for numbers in sentences. The other modules turn
measured results (``data``, ``figures``, ``charts``, ``tables``) and source
files (``source``, ``diff``) into HTML; they know nothing of Markdown.
"""
