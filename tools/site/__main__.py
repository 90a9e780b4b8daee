"""``python -m tools.site picture``: draw the README's picture anew."""

import argparse
import sys

from tools.servers import ROOT
from tools.site import picture
from tools.site.errors import SiteError


def main() -> str | int:
    """Run the command line; what to say at the end, or its exit status."""
    parser = argparse.ArgumentParser("python -m tools.site", None, __doc__)
    parser.add_argument("command", choices=["picture"])
    parser.add_argument(
        "--check", action="store_true",
        help="write nothing, fail if a picture is not up to date",
    )
    check: bool = parser.parse_args().check
    try:
        files = picture.stale() if check else picture.write()
    except SiteError as error:
        return str(error)
    for file in files:
        said = "is out of date" if check else "written"
        print(f"{file.relative_to(ROOT)} {said}")
    return int(check and bool(files))


if __name__ == "__main__":
    sys.exit(main())
