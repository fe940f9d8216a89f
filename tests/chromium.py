"""The browser of tests that use pages."""

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Browser, BrowserContext, sync_playwright

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking"]


@contextmanager
def running_chromium() -> Iterator[Browser]:
    """Run headless Chromium, from $CHROMIUM or the PATH. Without it, skip the test; with CI=true, fail it."""
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if chromium is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("NOT RUN: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=ARGUMENTS)
        yield browser
        browser.close()


def sign_in(context: BrowserContext, url: str, *, email: str, password: str) -> None:
    """Sign the browser in by the form that a visitor of `url` is sent to, without loading it as a page."""
    login = context.request.get(url)
    [token] = re.findall(r'name="csrfmiddlewaretoken" value="(\w+)"', login.text())
    form = {"username": email, "password": password, "csrfmiddlewaretoken": token}
    answer = context.request.post(login.url, form=form, headers={"Referer": login.url}, max_redirects=0)
    assert answer.status == 302, answer.text()
