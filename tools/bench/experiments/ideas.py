"""The ideas of step 07, and how to take each away: for ``gains``.

Each is taken away in a copy of the step's folder, in which a few words are
replaced. A replacement that does not find its words ends the experiment:
the list follows the code or it fails.
"""

import contextlib
import dataclasses
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tools.bench.session import Refused
from tools.servers import ROOT, Server, by_name

COPIES = ".patched"  # folder of the repository, for the changed copies
KEEP, NEW = "gain-keep", "gain-new"  # suites
Change = tuple[str, str, str]  # file, words in it, what to put instead


@dataclass(frozen=True)
class Idea:
    """An idea of step 07, and how to take it away.

    name: what is then otherwise, in a few words; changes: what to replace;
    options: or a command line; suites: where it matters.
    """

    name: str
    changes: tuple[Change, ...] = ()
    options: tuple[str, ...] = ()
    suites: tuple[str, ...] = (KEEP, NEW)


RECEIVE = "receive(client.fd, client.request is not None)"
OTHER_ERRORS = """\
            except OSError as error:
                # Too many
"""[:-1]
MIN_WAIT = OTHER_ERRORS.replace(
    "error:\n", "error:\n                if error.errno == errno.ETIME:\n"
    "                    return\n",
)
IDEAS = (
    Idea("as it is"),
    Idea("emulated: no io_uring", options=("--engine", "emulated")),
    Idea("each send has a completion", ((
        "client.py", "        if self.full or self.transfer:\n",
        "        if True:\n",
    ),)),
    Idea("reads to the end before it closes", ((
        "client.py", "self.last or (closes and not self.receiving)\n",
        "self.last\n",
    ),), suites=(NEW,)),
    Idea("each head is parsed, known or not", ((
        "prepared.py", "kind = kind_of(data)\n", "kind = None\n",
    ),)),
    Idea("only single receives", (
        ("server.py", RECEIVE, "receive(client.fd)"),
    ), suites=(KEEP,)),
    Idea("only multishot receives", (
        ("server.py", RECEIVE, "receive(client.fd, True)"),
    ), suites=(NEW,)),
    Idea("accepted before it has sent anything", ((
        "workers.py", "        each.setsockopt(socket.IPPROTO_TCP, "
        "socket.TCP_DEFER_ACCEPT, 1)\n", "",
    ),), suites=(NEW,)),
    Idea("the end in a segment of its own", (
        ("uring.py", "LAST = ALL | MSG_MORE\n", "LAST = ALL\n"),
    ), suites=(NEW,)),
    Idea("completions interrupt us (no DEFER_TASKRUN)", ((
        "uring.py", "    for flags in FLAGS:\n",
        "    for flags in FLAGS[3:]:\n",
    ),)),
    Idea("waits up to 50 µs for eight completions", (
        ("uring.py", "ENTER, self.fd, self.put - self.taken, wait, 1\n",
         "ENTER, self.fd, self.put - self.taken, wait * 8, 9, "
         "address(WAIT), 24\n"),
        ("uring.py", "class Unavailable",
         "WAIT = bytearray(struct.pack('=QIIQ', 0, 0, 50, 0))\n\n\n"
         "class Unavailable"),
        ("uring.py", OTHER_ERRORS, MIN_WAIT),
    )),
)  # fmt: skip


def patched(idea: Idea, folder: Path) -> Server:
    """07 without an idea, as a copy in a folder of its own.

    Raises Refused if the words to be replaced are not there once.
    """
    original = by_name("07")
    options = (*original.options, *idea.options)
    if not idea.changes:
        return dataclasses.replace(original, options=options)
    words = "".join(c if c.isalnum() else " " for c in idea.name).split()
    copy = folder / "-".join(words)
    shutil.copytree(
        original.path.parent, copy,
        ignore=shutil.ignore_patterns("__pycache__"),
    )
    for name, old, new in idea.changes:
        text = (copy / name).read_text(encoding="utf-8")
        if text.count(old) != 1:
            raise Refused(
                f"{idea.name!r}: {old.strip()!r} is {text.count(old)} times "
                f"in 07_parallel/{name}, not once: the list of ideas has to "
                "follow"
            )
        changed = text.replace(old, new)
        (copy / name).write_text(changed, encoding="utf-8")
    file = str((copy / "server.py").relative_to(ROOT))
    return dataclasses.replace(original, file=file, options=options)


@contextlib.contextmanager
def copies() -> Iterator[dict[str, Server]]:
    """The server without each idea, by the idea's name."""
    folder = ROOT / COPIES
    shutil.rmtree(folder, ignore_errors=True)
    try:
        yield {idea.name: patched(idea, folder) for idea in IDEAS}
    finally:
        shutil.rmtree(folder, ignore_errors=True)
