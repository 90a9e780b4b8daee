"""The README's picture is that of the committed reference."""

from xml.etree import ElementTree

from tools.data.results import Results
from tools.site import picture


def test_the_picture_shows_the_reference() -> None:
    old = [file.name for file in picture.stale()]
    assert not old, f"run python -m tools.site picture: {old} are old"


def test_the_picture_is_well_formed(reference: Results) -> None:
    for scheme in picture.SCHEMES.values():
        root = ElementTree.fromstring(picture.draw(scheme))
        words = "".join(root.itertext())
        assert "A & B <CPU>" in words
        assert "possible: 100" in words
