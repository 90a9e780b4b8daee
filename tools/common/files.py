"""The one way to save a file and to read data, with clear errors."""

import contextlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

LONGEST = 2000  # characters of a value that stands on one line


class DataError(Exception):
    """A data file that cannot be used; the text says why."""


def save(file: Path, text: str) -> Path:
    """Write a text as UTF-8; a crash leaves the old file whole."""
    file.parent.mkdir(parents=True, exist_ok=True)
    fresh = file.with_name(f"{file.name}.new")
    fresh.write_text(text, encoding="utf-8")
    os.replace(fresh, file)
    return file


def lay_out(
    parent: Path, files: Mapping[str, bytes], links: Iterable[Path] = ()
) -> Path:
    """A new folder with these files, which only its owner can change.

    links: files elsewhere that it leads to, of the same names.
    """
    folder = Path(tempfile.mkdtemp(dir=parent))
    for target in links:
        (folder / target.name).symlink_to(target)
    for name, data in files.items():
        (folder / name).write_bytes(data)
        (folder / name).chmod(0o444)
    folder.chmod(0o555)
    return folder


def save_json(file: Path, data: Any) -> Path:
    """Write data as JSON, see `to_json`; a crash leaves the old whole."""
    return save(file, to_json(data) + "\n")


def to_json(data: Any, indent: str = "") -> str:
    """JSON of which a person can read the changes.

    What is short stands on one line (one run, one span), what is long
    has a line for each of its parts.
    """
    line = json.dumps(data)
    flat = len(line) <= LONGEST and indent
    if flat or not isinstance(data, dict | list) or not data:
        return line
    deeper = indent + " "
    if isinstance(data, dict):
        parts = [
            f"{deeper}{json.dumps(name)}: {to_json(value, deeper)}"
            for name, value in data.items()
        ]
    else:
        parts = [deeper + to_json(value, deeper) for value in data]
    return "\n".join([line[0], ",\n".join(parts), indent + line[-1]])


@contextlib.contextmanager
def reading(file: Path, what: str) -> Iterator[None]:
    """Turn what can be wrong with a file into a DataError.

    what: what the file should be, for the sentence, as "a recording".
    """
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{file.name} cannot be read: {error.strerror}"
        ) from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise DataError(f"{file.name} is not {what}: {error}") from error


def read_json(file: Path, schema: int, again: str) -> Any:
    """The content of a JSON file with this schema number; see `reading`.

    again: what to do if it has another one, as "record again".
    """
    data = json.loads(file.read_text(encoding="utf-8"))
    if data.get("schema") != schema:
        raise DataError(
            f"{file.name} has schema {data.get('schema')}, this version "
            f"reads {schema}: {again}"
        )
    return data
