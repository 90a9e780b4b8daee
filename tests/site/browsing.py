"""A browser for the tests of the site: its windows and what goes wrong."""

import os
import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal

import pytest
from axe_playwright_python.sync_playwright import (  # type: ignore[import-untyped]
    Axe,
)
from playwright.sync_api import Browser, Page

CHROMIUM = shutil.which("chromium") or "/usr/bin/chromium"
Scheme = Literal["light", "dark"]
Motion = Literal["reduce", "no-preference"]
LOCAL = ("file:", "data:", "about:", "blob:")
PATIENCE = 120_000  # ms for what takes a moment, on a very busy machine

Opened = Callable[..., Page]  # the fixture: `open_page` without a browser

needs_browser = pytest.mark.skipif(
    not Path(CHROMIUM).exists() and not os.environ.get("CI"),
    reason="there is no chromium on this machine",
)


def open_page(
    browser: Browser, scheme: Scheme, width: int = 1280,
    motion: Motion = "reduce", script: bool = True,
) -> tuple[Page, list[str]]:
    """A browser window of some CSS pixels, and what went wrong in it.

    It may ask for nothing outside; script: whether scripts run.
    """
    trouble: list[str] = []
    context = browser.new_context(
        color_scheme=scheme,
        reduced_motion=motion,
        viewport={"width": width, "height": 900},
        java_script_enabled=script,
    )
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.on(
        "console",
        lambda m: trouble.append(m.text) if m.type == "error" else None,
    )
    page.on("pageerror", lambda error: trouble.append(str(error)))
    page.on(
        "request",
        lambda r: None
        if r.url.startswith(LOCAL)
        else trouble.append(f"it asked for {r.url}"),
    )
    return page, trouble


def visit(page: Page, path: Path) -> None:
    """Go to a built page and wait until its scripts have begun."""
    page.goto(path.as_uri())
    settle(page)


def settle(page: Page) -> None:
    """Until the scripts have begun, if there are: a11y.js is the last."""
    if page.locator("html.js").count():
        page.wait_for_selector(".md-search[aria-label]", state="attached")


# Contrast takes axe-core most of its time, a minute for one large page. What
# has the same tags and classes all the way up looks alike: two of each do.
MARK = """async (parts) => {
  await Promise.allSettled(document.getAnimations()
    .filter(a => a instanceof CSSTransition).map(a => a.finished));
  const kind = (e) => e
    ? `${kind(e.parentElement)} ${e.tagName}.${e.getAttribute("class")}` : "";
  const marked = new Map();
  for (const e of document.querySelectorAll("body *")) {
    delete e.dataset.looks;
    const says = e.matches("input, select") || /\\w\\w/.test(e.textContent)
      && [...e.childNodes].some(n => n.nodeType === 3 && n.data.trim());
    if (!says || !e.closest(parts)
        || !e.checkVisibility({visibilityProperty: true})) continue;
    const before = marked.get(kind(e)) || 0;
    marked.set(kind(e), before + 1);
    if (before < 2) e.dataset.looks = "";
  }
}"""
COLOURS = ["color-contrast", "link-in-text-block"]


def faults(page: Page, *parts: str) -> list[str]:
    """What axe-core finds on a page, or in parts of it (selectors)."""
    rest = {"rules": {rule: {"enabled": False} for rule in COLOURS}}
    return axe(page, parts, rest) + bad_colours(page, *parts)


def bad_colours(page: Page, *parts: str) -> list[str]:
    """What axe-core finds of that which is another in another scheme."""
    page.evaluate(MARK, ", ".join(parts) or "body")
    return axe(page, ["[data-looks]"], {"runOnly": COLOURS})


def axe(
    page: Page, parts: Sequence[str], options: dict[str, Any]
) -> list[str]:
    """What it finds, a line each."""
    # Without preload: axe itself would fetch the style sheets.
    found = Axe().run(
        page, context=[[part] for part in parts] or None,
        options={
            "preload": False, "resultTypes": ["violations"], **options
        },
    )
    return [
        f"{fault['id']}: {node['html'][:200]} "
        f"{node.get('failureSummary', '')[:300]}"
        for fault in found.response["violations"]
        for node in fault["nodes"]
    ]
