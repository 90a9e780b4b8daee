"""The body of a fence: one ``key: value`` a line."""

from collections.abc import Collection

from tools.servers import SERVERS, Server, by_name
from tools.site.errors import SiteError


def parse(
    text: str, required: Collection[str], optional: Collection[str] = ()
) -> dict[str, str]:
    """The options of a fence; unknown, missing or double keys are errors."""
    options: dict[str, str] = {}
    for line in text.splitlines():
        if not line.strip():
            continue
        key, colon, value = line.partition(":")
        key, value = key.strip(), value.strip()
        if not colon or not value:
            raise SiteError(f"{line.strip()!r} is not 'key: value'")
        if key not in required and key not in optional:
            known = ", ".join([*required, *optional])
            raise SiteError(f"there is no option {key!r}; there are {known}")
        if key in options:
            raise SiteError(f"the option {key!r} is there twice")
        options[key] = value
    missing = [key for key in required if key not in options]
    if missing:
        raise SiteError(f"the option {missing[0]!r} is missing")
    return options


def whole(options: dict[str, str], key: str) -> int | None:
    """An option that is a whole number; None if it is not there."""
    value = options.get(key)
    if value is None:
        return None
    if not value.isdecimal():
        raise SiteError(f"{key} is a whole number, not {value!r}")
    return int(value)


def words(options: dict[str, str], key: str) -> list[str]:
    """An option with commas between; empty if it is not there."""
    parts = (part.strip() for part in options.get(key, "").split(","))
    return [part for part in parts if part]


def server(name: str) -> Server:
    """The server of that name."""
    try:
        return by_name(name)
    except KeyError:
        names = ", ".join(s.name for s in SERVERS)
        raise SiteError(
            f"no server is called {name!r}; there are {names}"
        ) from None


def servers(words: str) -> list[Server]:
    """Servers by name in the order given.

    ``all`` takes every one, ``steps`` the seven ``server.py``.
    """
    if words == "all":
        return list(SERVERS)
    if words == "steps":
        return [
            s for s in SERVERS if s.path.name == "server.py" and not s.options
        ]
    return [server(word.strip()) for word in words.split(",")]
