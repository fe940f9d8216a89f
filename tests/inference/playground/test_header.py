"""The header of the model server's pages in a browser."""

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.inference.playground.steps import sign_in
from tests.inference.running_server import RunningServer
from tests.page_checks import check_page, follow_by_keyboard

TITLES = ["Model server", "Playground", "Model server API"]  # the shop's public URL is not set


# The rest of the documentation's page is Swagger UI's.
@pytest.mark.parametrize(("path", "part"), [("/", None), ("/playground", None), ("/docs", ".site-header")])
def test_axe_finds_no_violation_at_any_width(browser: Browser, stoa: RunningServer, path: str, part: str | None):
    check_page(browser, stoa.url + path, part=part)


@pytest.mark.parametrize("path", ["/", "/playground", "/docs"])
def test_the_header_is_used_by_keyboard(browser: Browser, stoa: RunningServer, path: str):
    follow_by_keyboard(browser, stoa.url + path, TITLES)


def test_the_header_of_the_playground_names_who_is_signed_in_there(page: Page, stoa: RunningServer):
    header = page.get_by_role("banner")
    expect(header).to_contain_text("Not signed in")
    sign_in(page, stoa.keys["STAFF"])
    expect(header).to_contain_text("staff@example.com")
    expect(header.get_by_role("button", name="Sign out")).to_be_visible()
