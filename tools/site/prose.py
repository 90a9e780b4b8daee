"""A line of Markdown inside a fence, made with the page's own extensions.

What a fence returns is HTML that nobody looks into again: a link to
another page would be neither rewritten nor checked. So its sentences go
through the page itself: they ride along as elements at the end of the
page while Markdown and the site's builder work on it, then each is put
where the fence left a place for it. Code, emphasis, numbers and links
work as in any paragraph, and a dead link fails MkDocs' strict build.
"""

import re
from typing import Any
from xml.etree import ElementTree

from markdown.treeprocessors import (  # type: ignore[import-untyped]
    Treeprocessor,
)

MARK = "data-seven-prose"  # on the elements that ride along
FIRST, LAST = 1000.0, -1000.0  # before and after every other processor


class _Board(Treeprocessor):  # type: ignore[misc]
    """Puts the sentences on the page before all others look at it."""

    def __init__(self, md: Any) -> None:
        super().__init__(md)
        self.waiting: list[tuple[int, str]] = []  # place in the stash, text

    def run(self, root: ElementTree.Element) -> None:
        """Add one element for each sentence at the end of the page."""
        for place, text in self.waiting:
            element = ElementTree.SubElement(root, "span", {MARK: str(place)})
            element.text = text
        self.waiting.clear()


class _Alight(Treeprocessor):  # type: ignore[misc]
    """Takes them off again and puts each in its place."""

    def run(self, root: ElementTree.Element) -> None:
        """Fill the places the fences have left."""
        for element in root.findall(f"span[@{MARK}]"):
            root.remove(element)
            element.tail = None
            html = self.md.serializer(element).strip()
            place = int(element.attrib[MARK])
            text = re.sub(r"^<span[^>]*>|</span>$", "", html)
            self.md.htmlStash.rawHtmlBlocks[place] = text


def line(md: Any, text: str) -> str:
    """Where a line of Markdown will stand: put this into the fence's HTML.

    Must be called while the page's fences are made.
    """
    if "seven-prose" not in md.treeprocessors:
        md.treeprocessors.register(_Board(md), "seven-prose", FIRST)
        md.treeprocessors.register(_Alight(md), "seven-prose-end", LAST)
    where: str = md.htmlStash.store("")
    board = md.treeprocessors["seven-prose"]
    board.waiting.append((md.htmlStash.html_counter - 1, text))
    return where
