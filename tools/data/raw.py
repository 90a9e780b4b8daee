"""The raw outputs of a run: what the load generator printed, unchanged.

While a run is under way each is a text, ``raw/NAME.txt`` in its folder.
When it is complete, `Results.save` packs them all into one ``raw.zip``.
Both can be read: an interrupted run stays as it is.
"""

import os
import shutil
import zipfile
from pathlib import Path

from tools.common.files import DataError

PACKED = "raw.zip"
LOOSE = "raw"  # a folder
LONG_AGO = (1980, 1, 1, 0, 0, 0)  # the same texts make the same file


def append(folder: Path, name: str, text: str) -> None:
    """Add a text to the end of NAME's."""
    loose = folder / LOOSE
    loose.mkdir(parents=True, exist_ok=True)
    with (loose / f"{name}.txt").open("a", encoding="utf-8") as file:
        file.write(text)


def names(folder: Path) -> list[str]:
    """Whose outputs there are, sorted."""
    loose = (folder / LOOSE).glob("*.txt")
    return sorted({file.stem for file in loose} | set(_packed(folder)))


def read(folder: Path, name: str) -> str:
    """The outputs of NAME. Raises DataError if there are none."""
    file = folder / LOOSE / f"{name}.txt"
    if file.is_file():
        return file.read_text(encoding="utf-8")
    try:
        return _packed(folder)[name]
    except KeyError:
        raise DataError(f"{folder.name} has no raw output {name!r}") from None


def pack(folder: Path) -> None:
    """Make one file of all texts; a crash leaves every one of them."""
    loose = folder / LOOSE
    if not loose.is_dir():
        return
    texts = {name: read(folder, name) for name in names(folder)}
    fresh = folder / f"{PACKED}.new"
    with zipfile.ZipFile(fresh, "w", compresslevel=9) as file:
        for name, text in texts.items():
            entry = zipfile.ZipInfo(f"{name}.txt", LONG_AGO)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = 0o644 << 16
            file.writestr(entry, text.encode())
    os.replace(fresh, folder / PACKED)
    shutil.rmtree(loose)


def _packed(folder: Path) -> dict[str, str]:
    """The texts in the packed file; none if there is no such file."""
    try:
        with zipfile.ZipFile(folder / PACKED) as file:
            return {
                Path(name).stem: file.read(name).decode()
                for name in file.namelist()
            }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise DataError(f"{PACKED} cannot be read: {error}") from error
