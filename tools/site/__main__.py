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
    parser.parse_args()
    try:
        for file, text in picture.drawn().items():
            file.write_text(text, encoding="utf-8")
            print(f"{file.relative_to(ROOT)} written")
    except SiteError as error:
        return str(error)
    return 0


if __name__ == "__main__":
    sys.exit(main())
