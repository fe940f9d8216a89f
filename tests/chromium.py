"""The browser of tests that use pages as people do."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, sync_playwright

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


@contextmanager
def running_chromium() -> Iterator[Browser]:
    """Headless, of $CHROMIUM or the PATH. Where there is none the test is not run; where CI=true it fails."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("NOT RUN: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield browser
        browser.close()
