"""``python -m tools.site picture``: draw the README's picture anew."""

import argparse
import sys

from tools.servers import ROOT
from tools.site import picture
from tools.site.errors import SiteError


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m tools.site", description=__doc__
    )
    parser.add_argument("command", choices=["picture"])
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing, fail if a picture is not up to date",
    )
    options = parser.parse_args()
    try:
        files = picture.stale() if options.check else picture.write()
    except SiteError as error:
        print(error, file=sys.stderr)
        return 1
    for file in files:
        said = "is out of date" if options.check else "written"
        print(f"{file.relative_to(ROOT)} {said}")
    return 1 if options.check and files else 0


if __name__ == "__main__":
    sys.exit(main())
