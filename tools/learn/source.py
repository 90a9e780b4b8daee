"""Can Python read this file? If not: why.

    python -IS source.py PATH NAME

A process of its own does it, since a few lines can keep Python's compiler
busy for hours and fill the memory. Nothing of the file is run.
"""

import io
import subprocess
import sys
import tokenize
from pathlib import Path

# Of CPU, for a file that takes a hundredth of a second; kilobytes.
LIMITS = 'ulimit -t 3; ulimit -c 0; ulimit -d 262144; exec "$0" "$@"'


def check_source(path: Path, name: str) -> str:
    """Why Python cannot read this file, in a sentence; "" if it can."""
    done = subprocess.run(
        ["sh", "-c", LIMITS, sys.executable, "-IS", "-W", "ignore", __file__,
         str(path), name],
        capture_output=True, check=False,
    )
    if done.returncode:
        return f"{name} cannot be read: it keeps Python's compiler too busy"
    return done.stdout.decode()


def why_not(path: Path, name: str) -> str:
    """The same, in this process."""
    try:
        text = path.read_bytes()
        if not text.strip():
            return f"{name} is empty"
        encoding, _ = tokenize.detect_encoding(io.BytesIO(text).readline)
        compile(text.decode(encoding), name, "exec")
    except (RecursionError, MemoryError):
        return f"{name} cannot be read: too much is nested in it"
    except SyntaxError as error:
        where = f"{name}, line {error.lineno}" if error.lineno else name
        code = f": {error.text.strip()}" if error.text else ""
        return f"{where}: {error.msg}{code}"
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        return f"{name}, line {line}: save the file as UTF-8"
    except LookupError:  # it names a coding that is none of text
        return f"{name}: save the file as UTF-8"
    except (OSError, ValueError) as error:
        return f"{name} cannot be read: {error}"
    return ""


if __name__ == "__main__":
    words = why_not(Path(sys.argv[1]), sys.argv[2])
    sys.stdout.buffer.write(words.encode(errors="replace"))
