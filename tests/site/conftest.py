"""What the tests of the site share: results, and Markdown as built."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import markdown  # type: ignore[import-untyped]
import pytest
import yaml  # type: ignore[import-untyped]
from playwright.sync_api import Browser, sync_playwright

from tests.site import sample
from tests.site.browsing import CHROMIUM
from tools.data.results import REFERENCE, Results
from tools.servers import ROOT

Render = Callable[[str], str]


@pytest.fixture
def reference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Results:
    """Sample results as the reference; the reader has not measured."""
    made = sample.results()
    folder = sample.save(tmp_path / "reference", made)
    monkeypatch.setenv("SEVEN_REFERENCE", str(folder))
    monkeypatch.setenv("SEVEN_OWN", "none")
    monkeypatch.delenv("SEVEN_BESIDE", raising=False)
    return made


@pytest.fixture
def change(
    reference: Results, tmp_path: Path
) -> Callable[[Results], None]:
    """Write a changed reference."""

    def save(made: Results) -> None:
        folder = sample.save(tmp_path / "reference", made)
        file = folder / "results.json"
        now = file.stat().st_mtime_ns  # tell it apart from the last one
        os.utime(file, ns=(now, now + 1_000_000_000))

    return save


@pytest.fixture
def own(
    reference: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Results:
    """The reader has made a default run, half as fast."""
    suites = ("classic", "many", "raw-new", "raw-keep")
    made = sample.results(0.5, suites)
    folder = sample.save(tmp_path / "own", made)
    monkeypatch.setenv("SEVEN_OWN", str(folder))
    return made


@pytest.fixture
def committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> sample.Committed:
    """A place for experiments that a test makes."""
    return sample.Committed(tmp_path, monkeypatch)


@pytest.fixture
def render() -> Render:
    """Markdown to HTML with the extensions of mkdocs.yml."""
    text = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    config = yaml.unsafe_load(text)  # it names Python functions
    names, options = [], {}
    for entry in config["markdown_extensions"]:
        if isinstance(entry, str):
            names.append(entry)
        else:
            ((name, its_options),) = entry.items()
            names.append(name)
            options[name] = its_options

    def to_html(text: str) -> str:
        made = markdown.Markdown(extensions=names, extension_configs=options)
        html: str = made.convert(text)
        return html

    return to_html


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly, as if the reader had not measured."""
    return build(tmp_path_factory.mktemp("site") / "site", own="none")


@pytest.fixture(scope="session")
def own_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site with the reader's numbers, here the reference again."""
    folder = tmp_path_factory.mktemp("site") / "own"
    return build(folder, own=str(REFERENCE))


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The machine's chromium, without a window."""
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-dev-shm-usage"]
        launched = playwright.chromium.launch(
            executable_path=CHROMIUM, args=arguments
        )
        yield launched
        launched.close()


def build(folder: Path, own: str) -> Path:
    """Run the build as everybody does."""
    environment = {**os.environ, "SEVEN_OWN": own}
    for name in ("SEVEN_REFERENCE", "SEVEN_BESIDE"):
        environment.pop(name, None)
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", folder],
        cwd=ROOT, env=environment, capture_output=True, text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


def pages(folder: Path) -> list[Path]:
    """Every page a reader can come to; 404.html is for web servers."""
    found = folder.rglob("*.html")
    return sorted(page for page in found if page.name != "404.html")
