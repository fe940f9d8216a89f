"""The browser and the page. The folder is left out of the runs on PostgreSQL: its tests are not about the database."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, ViewportSize

from tests.chromium import running_chromium
from tests.inference.playground.steps import SLOW_MS
from tests.inference.running_server import RunningServer
from tests.services import ignore_on_postgresql as pytest_ignore_collect  # noqa: F401  not about the database

DESKTOP: ViewportSize = {"width": 1280, "height": 800}


@pytest.fixture(scope="package")
def browser() -> Iterator[Browser]:
    with running_chromium() as running:
        yield running


@pytest.fixture
def page(browser: Browser, stoa: RunningServer) -> Iterator[Page]:
    """The page before signing in. Any message in the browser's console fails the test."""
    context = browser.new_context(viewport=DESKTOP)
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.set_default_timeout(SLOW_MS)
    complaints: list[str] = []
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    page.goto(f"{stoa.url}/playground")
    yield page
    context.close()
    assert [words for words in complaints if "status of 40" not in words] == []
