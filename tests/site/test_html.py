"""Every page is valid HTML, says the Nu checker of the W3C.

.ci/run installs it; by hand: npm install --prefix .venv/nu vnu-jar
"""

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

import pytest

from tests.site.conftest import pages
from tools.servers import ROOT

JAR = ROOT / ".venv/nu/node_modules/vnu-jar/build/dist/vnu.jar"
SECONDS = 600  # one run takes ten on a machine with nothing else to do

# Faults of the theme, in every page: what the checker says, and where. The
# browsers do what the theme means.
THEME = {
    # Firefox keeps the state of these boxes over a reload otherwise.
    "“autocomplete” is only allowed": r'class="md-toggle" data-md-toggle=',
    # The heading of a group in the navigation must not take the focus.
    "Bad value “” for attribute “tabindex”": r'<label class="md-nav__link"',
}

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(
        not (shutil.which("java") and JAR.is_file())
        and not os.environ.get("CI"),
        reason="the Nu HTML checker needs java, and npm install --prefix "
        ".venv/nu vnu-jar",
    ),
]


def check(places: Iterable[Path]) -> list[dict[str, str]]:
    """What the checker says of these files and folders."""
    done = subprocess.run(
        ["java", "-Xss4m", "-jar", JAR, "--format", "json", "--stdout",
         "--skip-non-html", *places],
        capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    assert done.stdout.startswith("{"), done.stderr
    found: list[dict[str, str]] = json.loads(done.stdout)["messages"]
    return found


def of_theme(fault: dict[str, str]) -> str | None:
    """Which of the theme's faults this is; None: it is ours."""
    for says, where in THEME.items():
        if says in fault["message"] and re.search(where, fault["extract"]):
            return says
    return None


def serious(fault: dict[str, str]) -> bool:
    """Errors and warnings; not that Markdown writes a slash in <br />."""
    return fault["type"] != "info" or fault.get("subType") == "warning"


def test_every_page_is_valid(site: Path, own_site: Path) -> None:
    own = [p for p in pages(own_site) if "seven-own" in p.read_text("utf-8")]
    assert own
    faults = [fault for fault in check([site, *own]) if serious(fault)]
    ours = [
        f"{Path(fault['url']).name}: {fault['message']} "
        f"{fault.get('extract', '')!r}"
        for fault in faults
        if of_theme(fault) is None
    ]
    assert not ours, "\n".join(ours)
    # One that is mended must not stand above any more; and the checker sees.
    assert {of_theme(fault) for fault in faults} == set(THEME)
