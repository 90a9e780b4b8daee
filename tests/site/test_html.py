"""Every page is valid HTML, says the Nu checker of the W3C.

.ci/run installs it; by hand: npm install --prefix .venv/nu vnu-jar
"""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tools.servers import ROOT

JAR = ROOT / ".venv/nu/node_modules/vnu-jar/build/dist/vnu.jar"
SECONDS = 600  # one run takes ten on a machine with nothing else to do

# Faults of the theme, in every page; the browsers do what it means. Firefox
# keeps the state of boxes over a reload without the first, and the heading
# of a group in the navigation must not take the focus.
THEME = (
    ".*“autocomplete” is only allowed.*"
    "|.*Bad value “” for attribute “tabindex” on element “label”.*"
    "|Trailing slash on void elements .*"  # which is how Markdown writes <br>
)

pytestmark = [
    pytest.mark.thorough,
    pytest.mark.skipif(
        not (shutil.which("java") and JAR.is_file())
        and not os.environ.get("CI"),
        reason="the Nu HTML checker needs java, and npm install --prefix "
        ".venv/nu vnu-jar",
    ),
]


def test_every_page_is_valid(site: Path) -> None:
    done = subprocess.run(
        ["java", "-Xss4m", "-jar", JAR, "--Werror", "--skip-non-html",
         "--filterpattern", THEME, site],
        capture_output=True, text=True, timeout=SECONDS,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
