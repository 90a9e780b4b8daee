"""A browser for the tests of the site: its windows and what goes wrong."""

import os
import shutil
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
Scheme = Literal["light", "dark"]
Motion = Literal["reduce", "no-preference"]

needs_browser = pytest.mark.skipif(
    not Path(CHROMIUM).exists() and not os.environ.get("CI"),
    reason="there is no chromium on this machine",
)


def open_page(
    browser: Browser, scheme: Scheme, width: int = 1280,
    motion: Motion = "reduce", script: bool = True,
) -> tuple[Page, list[str]]:
    """A browser window, and what went wrong in it.

    width: of the window, in CSS pixels; script: whether scripts run.
    """
    trouble: list[str] = []
    context = browser.new_context(
        color_scheme=scheme,
        reduced_motion=motion,
        viewport={"width": width, "height": 900},
        java_script_enabled=script,
    )
    page = context.new_page()
    page.on(
        "console",
        lambda m: trouble.append(m.text) if m.type == "error" else None,
    )
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on(
        "request",
        lambda r: None
        if r.url.startswith(("file:", "data:", "about:", "blob:"))
        else trouble.append(f"it asked for {r.url}"),
    )
    return page, trouble


def visit(page: Page, path: Path) -> None:
    """Go to a built page and let its scripts begin."""
    page.goto(path.as_uri())
    page.wait_for_timeout(250)  # the theme's script and ours
