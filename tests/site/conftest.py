"""What the tests of the site share: results, and Markdown as built."""

import fcntl
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import markdown  # type: ignore[import-untyped]
import pytest
import yaml  # type: ignore[import-untyped]
from playwright.sync_api import Browser, Page, sync_playwright

from tests.site import sample
from tests.site.browsing import CHROMIUM, Opened, open_page
from tools.data.results import Results
from tools.servers import ROOT

Render = Callable[[str], str]
CONFIG = ROOT / "mkdocs.yml"


@pytest.fixture(scope="session")
def sample_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sample results, written once."""
    return sample.save(tmp_path_factory.mktemp("sample"), sample.results())


@pytest.fixture
def reference(
    sample_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> Results:
    """Sample results as the reference; the reader has not measured."""
    monkeypatch.setenv("SEVEN_REFERENCE", str(sample_folder))
    monkeypatch.setenv("SEVEN_OWN", "none")
    monkeypatch.delenv("SEVEN_BESIDE", raising=False)
    return sample.results()


@pytest.fixture
def change(
    reference: Results, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[Results], None]:
    """Make a changed reference the one that is used, once in a test."""

    def save(made: Results) -> None:
        folder = sample.save(tmp_path / "reference", made)
        monkeypatch.setenv("SEVEN_REFERENCE", str(folder))

    return save


@functools.cache
def extensions() -> dict[str, Any]:
    """Those of mkdocs.yml, with their options."""
    config = yaml.unsafe_load(CONFIG.read_text("utf-8"))  # names functions
    found: dict[str, Any] = {}
    for entry in config["markdown_extensions"]:
        found |= {entry: {}} if isinstance(entry, str) else entry
    return found


@pytest.fixture
def committed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> sample.Committed:
    """A place for experiments that a test makes."""
    return sample.Committed(tmp_path, monkeypatch)


@pytest.fixture
def render() -> Render:
    """Markdown to HTML with the extensions of mkdocs.yml."""

    def to_html(text: str) -> str:
        chosen = extensions()
        html: str = markdown.markdown(
            text, extensions=list(chosen), extension_configs=chosen
        )
        return html

    return to_html


# Built sites ----------------------------------------------------------------


def once(
    factory: pytest.TempPathFactory, builder: str, *options: str
) -> Path:
    """A site that all workers share, made by the first that needs it."""
    root = factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        root = root.parent
    folder = root / builder
    with (root / f"{builder}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # until the file is closed
        if not (folder / "made").exists():
            # One of the builders writes beside its settings only.
            shutil.copytree(
                ROOT / "docs", folder / "docs", dirs_exist_ok=True
            )
            shutil.copy(CONFIG, folder)
            config = str(folder / CONFIG.name)
            done = run(builder, "--strict", "-f", config, *options)
            assert done.returncode == 0, done.stdout + done.stderr
            (folder / "made").touch()
    return folder / "site"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly, as if the reader had not measured."""
    return once(tmp_path_factory, "mkdocs")


@pytest.fixture(scope="session")
def zensical_site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same as ``site``, by the other builder."""
    return once(tmp_path_factory, "zensical", "--clean")


def small(folder: Path, **pages: str) -> subprocess.CompletedProcess[str]:
    """A site of these pages and nothing else, built strictly."""
    _, _, rest = CONFIG.read_text("utf-8").partition("\nvalidation:")
    config = folder / CONFIG.name
    config.write_text(f"site_name: Small\nuse_directory_urls: false\n"
                      f"validation:{rest}", "utf-8")
    shutil.copytree(ROOT / "docs" / "assets", folder / "docs" / "assets")
    for name, text in pages.items():
        page = folder / "docs" / f"{name}.md"
        page.parent.mkdir(exist_ok=True)
        page.write_text(text, "utf-8")
    return run(
        "mkdocs", "--strict", "-f", str(config), "-d", str(folder / "site")
    )


def run(builder: str, *options: str) -> subprocess.CompletedProcess[str]:
    """A builder in the repository's folder; nobody has measured anew."""
    environment = {**os.environ, "SEVEN_OWN": "none"}
    environment.pop("SEVEN_REFERENCE", None)
    return subprocess.run(
        [sys.executable, "-m", builder, "build", *options],
        cwd=ROOT, env=environment, capture_output=True, text=True,
    )


def pages(folder: Path) -> list[Path]:
    """Every page a reader can come to; 404.html is for web servers."""
    found = folder.rglob("*.html")
    return sorted(page for page in found if page.name != "404.html")


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


@pytest.fixture
def opened(browser: Browser) -> Iterator[Opened]:
    """Opens windows, see `open_page`. Nothing may go wrong in them."""
    windows: list[tuple[Page, list[str]]] = []

    def another(*words: Any, **more: Any) -> Page:
        windows.append(open_page(browser, *words, **more))
        return windows[-1][0]

    yield another
    for page, trouble in windows:
        page.context.close()
        assert not trouble, "\n".join(trouble)
