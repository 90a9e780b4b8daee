"""Labs of the pages, a folder each."""
