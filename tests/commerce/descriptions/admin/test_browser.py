"""Tests of the description writer in a real browser, by keyboard."""

from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import BrowserContext, Dialog, Page, expect

from tests.chromium import running_chromium
from tests.commerce.descriptions.provider.fake_server import ProviderServer
from tests.commerce.live_server import ServedShop, served_shop

TIMEOUT_MS = 60_000
EVIL = "<img src=x onerror=alert(1)> The **Velmo** lamp glows."

pytestmark = [pytest.mark.timeout(600), pytest.mark.no_database]


@pytest.fixture(scope="module")
def provider() -> Iterator[ProviderServer]:
    server = ProviderServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def shop(provider: ProviderServer) -> Iterator[ServedShop]:
    with served_shop(provider_url=provider.url("selected")) as served:
        yield served


@pytest.fixture(scope="module")
def context(shop: ServedShop) -> Iterator[BrowserContext]:
    """Start a browser in which a super admin is signed in."""
    user = next(user for user in shop.users if user["role"] == "SUPER_ADMIN")
    with running_chromium() as browser:
        context = browser.new_context()
        page = context.new_page()
        page.set_default_timeout(TIMEOUT_MS)
        page.goto(f"{shop.url}/admin/login/")
        page.fill("[name=username]", user["email"])
        page.fill("[name=password]", user["password"])
        page.click("[type=submit]")
        page.wait_for_url("**/admin/")
        page.close()
        expect.set_options(timeout=TIMEOUT_MS)
        yield context


@pytest.fixture
def page(context: BrowserContext) -> Iterator[Page]:
    page = context.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    yield page
    page.close()


@pytest.fixture
def messages(page: Page) -> list[str]:
    """Return the errors of the page's scripts and the dialogs, which are accepted."""
    messages: list[str] = []

    def accept(dialog: Dialog) -> None:
        messages.append(dialog.message)
        dialog.accept()

    page.on("pageerror", lambda error: messages.append(str(error)))
    page.on("dialog", accept)
    return messages


def read_product(shop: ServedShop, index: int) -> dict[str, object]:
    listed = httpx2.get(f"{shop.url}/api/products", params={"orderBy": "id"}, timeout=30).json()["data"]
    product: dict[str, object] = listed[index]
    return product


def open_form(page: Page, shop: ServedShop, index: int) -> dict[str, object]:
    product = read_product(shop, index)
    page.goto(f"{shop.url}/admin/commerce_catalog/product/{product['id']}/change/")
    expect(page.locator("#description-writer")).to_be_visible()
    return product


def test_description_is_written_edited_and_used_by_keyboard(
    page: Page, shop: ServedShop, provider: ProviderServer, messages: list[str]
):
    provider.selected, provider.texts = "good", [EVIL]
    open_form(page, shop, 0)
    page.locator("#writer-keywords").focus()
    page.keyboard.type("brass, warm")
    page.keyboard.press("Enter")

    expect(page.locator("#writer-text")).to_have_value("The Velmo lamp glows.")
    expect(page.locator("#writer-text")).to_be_focused()
    expect(page.locator("#writer-status")).to_contain_text("Saved as a draft")
    page.keyboard.press("Control+End")
    page.keyboard.type(" Ours.")
    page.keyboard.press("Tab")
    expect(page.locator("#writer-use")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#writer-status")).to_contain_text("Saved as the product's description.")
    expect(page.locator("#id_description")).to_have_value("The Velmo lamp glows. Ours.")
    assert read_product(shop, 0)["description"] == "The Velmo lamp glows. Ours."
    assert messages == []


def test_text_appears_while_it_is_written_and_escape_stops_it(
    page: Page, shop: ServedShop, provider: ProviderServer, messages: list[str]
):
    provider.selected = "endless_text"
    before = open_form(page, shop, 1)["description"]
    page.locator("#writer-write").press("Enter")
    page.wait_for_function("document.getElementById('writer-text').value.split('word').length > 4")
    assert page.locator("#writer-text").get_attribute("readonly") is not None
    expect(page.locator("#writer-use")).to_be_hidden()
    expect(page.locator("#writer-stop")).to_be_focused()
    page.keyboard.press("Escape")

    expect(page.locator("#writer-status")).to_have_text("Stopped. Nothing was saved.")
    expect(page.locator("#writer-use")).to_be_hidden()
    expect(page.locator("#writer-write")).to_be_enabled()
    assert read_product(shop, 1)["description"] == before
    assert messages == []


@pytest.mark.parametrize(
    ("behavior", "message"),
    [("truncated", "The text provider stopped."), ("error_500", "The text provider did not return")],
)
def test_incomplete_text_cannot_be_used(
    page: Page, shop: ServedShop, provider: ProviderServer, messages: list[str], behavior: str, message: str
):
    provider.selected = behavior
    open_form(page, shop, 1)
    page.locator("#writer-write").click()

    expect(page.locator("#writer-status")).to_contain_text(message)
    expect(page.locator("#writer-use")).to_be_hidden()
    assert messages == []


def test_open_draft_is_used_after_a_warning_about_unsaved_changes(
    page: Page, shop: ServedShop, provider: ProviderServer, messages: list[str]
):
    provider.selected, provider.texts = "good", ["The draft."]
    open_form(page, shop, 2)
    page.locator("#writer-write").click()
    expect(page.locator("#writer-text")).to_have_value("The draft.")
    open_form(page, shop, 2)
    page.fill("#id_description", "Typed, and not saved.")
    page.locator(".writer-drafts summary").press("Enter")
    page.locator("[data-draft] button").press("Enter")
    expect(page.locator("#writer-text")).to_have_value("The draft.")
    page.locator("#writer-use").press("Enter")

    expect(page.locator("#id_description")).to_have_value("The draft.")
    assert messages == ["The description has unsaved changes. Replace it?"]
    assert read_product(shop, 2)["description"] == "The draft."
