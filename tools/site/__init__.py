"""Page elements made from data and source files, for the site.

``fence_call`` is what stands between them and Markdown: mkdocs.yml names
fences for pymdownx.superfences, and an inline formatter for the numbers in
sentences (``measured.num``). A fence is called like its module, or stands in
``measured`` or ``source``.
"""
