"""The drawings: what each one needs, and that nothing in them is cut."""

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.site.browsing import Opened, needs_browser
from tests.site.conftest import Render
from tools.servers import ROOT
from tools.site.drawing import FOLDER

DRAWINGS = sorted(FOLDER.glob("*.svg"))
SHEET = ROOT / "docs" / "assets" / "drawings.css"
SMALLEST = 11  # pixels of a letter on a phone
each = pytest.mark.parametrize("path", DRAWINGS, ids=lambda p: p.stem)

# What a reader of a phone cannot read: small, cut, crossed by something.
UNREADABLE = """(smallest) => {
  const svg = document.querySelector("svg"), all = svg.getBoundingClientRect();
  const texts = [...svg.querySelectorAll("text")], found = [];
  const inside = (box, x, y, by) => x > box.left + by && x < box.right - by
    && y > box.top + by && y < box.bottom - by;
  const boxes = texts.map(e => e.getBoundingClientRect());
  texts.forEach((e, i) => {
    const size = parseFloat(getComputedStyle(e).fontSize) * all.width / 340;
    if (size < smallest) found.push(`${size} px: ${e.textContent}`);
    const a = boxes[i];
    if (a.left < all.left || a.right > all.right || a.bottom > all.bottom)
      found.push(`cut: ${e.textContent}`);
    boxes.slice(i + 1).forEach((b, j) => {
      if (a.left < b.right - 1 && b.left < a.right - 1
          && a.top < b.bottom - 4 && b.top < a.bottom - 4)
        found.push(`${e.textContent} over ${texts[i + 1 + j].textContent}`);
    });
  });
  for (const e of svg.querySelectorAll("rect, circle, path")) {
    if (e.closest("defs")) continue;
    const matrix = e.getScreenCTM();
    for (let at = 0; at < e.getTotalLength(); at += 2) {
      const p = e.getPointAtLength(at).matrixTransform(matrix);
      const hit = boxes.findIndex(box => inside(box, p.x, p.y, 2));
      if (hit >= 0) {
        found.push(`a line through ${texts[hit].textContent}`);
        break;
      }
    }
  }
  return found;
}"""


@each
def test_what_a_drawing_has(path: Path) -> None:
    """Words for who cannot see it; classes of the sheet, no colours."""
    root = ElementTree.parse(path).getroot()
    names = [element.tag.rpartition("}")[2] for element in root]
    assert names[:2] == ["title", "desc"]
    assert len((root[1].text or "").split()) > 40, "it tells what is there"
    known = set(re.findall(r"\.([a-z]+)", SHEET.read_text("utf-8")))
    for element in root.iter():
        own = set(element.attrib) & {"fill", "stroke", "style", "font-size"}
        assert not own, element.attrib
        assert set(element.get("class", "").split()) <= known


def test_the_sheet_has_no_colours_and_no_small_text() -> None:
    rules = re.sub(r"(?s)/\*.*?\*/", "", SHEET.read_text("utf-8"))
    for colour in re.findall(r"(?:fill|stroke|color):([^;]+);", rules):
        assert re.fullmatch(r" (var\(--[a-z0-9-]+\)|none|Canvas\w*)", colour)
    sizes = re.findall(r"text[^{]*\{[^}]*font-size: (\d+)px", rules)
    sizes += re.findall(r"\.small \{ font-size: (\d+)px", rules)
    assert len(sizes) == 2 and min(map(int, sizes)) >= SMALLEST


def test_the_fence(render: Render) -> None:
    once = "```drawing\nname: loop-turn\n```"
    html = render(f"{once}\n\n{once}")
    assert html.count("<figure") == 2
    assert html.count("<figcaption>One turn of the event loop") == 2
    idents = re.findall(r' id="([^"]+)"', html)
    assert len(idents) == len(set(idents))
    used = re.findall(r"url\(#([^)]+)\)", html)
    for match in re.findall(r'aria-labelledby="([^"]+)"', html):
        used += match.split()
    assert used and set(used) <= set(idents)
    with pytest.raises(Exception, match="no drawing 'loop'; there are accept"):
        render("```drawing\nname: loop\n```")


@needs_browser
@pytest.mark.thorough
def test_it_can_be_read_on_a_phone(opened: Opened, render: Render) -> None:
    page = opened("light", width=340)
    sheet = SHEET.read_text("utf-8") + "body, figure { margin: 0 }"
    for path in DRAWINGS:
        html = render(f"```drawing\nname: {path.stem}\n```")
        page.set_content(f"<style>{sheet}</style>{html}")
        found = page.evaluate(UNREADABLE, SMALLEST)
        assert not found, (path.stem, found)
