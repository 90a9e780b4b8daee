"""The one way to save a file and to read data, with clear errors."""

import contextlib
import errno
import json
import os
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

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


def open_theirs(file: Path) -> IO[bytes]:
    """Open an ordinary file that somebody else has made, to read it.

    Raises OSError, whose strerror says why, also for a link, which would
    be followed with our rights, and for what would keep us waiting.
    """

    def opener(path: str, flags: int) -> int:
        return os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK)

    try:
        opened = open(file, "rb", opener=opener)  # noqa: SIM115
    except OSError as error:
        why = {errno.ENOENT: "there is none", errno.ELOOP: "it is a link"}
        said = f"it cannot be opened: {error.strerror}"
        raise OSError(error.errno, why.get(error.errno or 0, said)) from None
    if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
        opened.close()
        raise OSError(errno.EINVAL, "it is no ordinary file")
    return opened


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
