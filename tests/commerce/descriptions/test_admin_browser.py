"""A description written on the product form, in a real browser, by keyboard: as it comes, stopped, and broken off."""

from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import BrowserContext, Dialog, Page, expect

from tests.chromium import running_chromium
from tests.commerce.descriptions.provider_server import ProviderServer
from tests.commerce.served import ServedShop, served_shop

PATIENCE_MS = 60_000
EVIL = "<img src=x onerror=alert(1)> The **Velmo** lamp glows."

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def provider() -> Iterator[ProviderServer]:
    server = ProviderServer()
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="module")
def shop(provider: ProviderServer) -> Iterator[ServedShop]:
    with served_shop(provider_url=provider.url("chosen")) as served:
        yield served


@pytest.fixture(scope="module")
def context(shop: ServedShop) -> Iterator[BrowserContext]:
    """A browser in which a super admin is signed in."""
    user = next(user for user in shop.users if user["role"] == "SUPER_ADMIN")
    with running_chromium() as browser:
        context = browser.new_context()
        page = context.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(f"{shop.url}/admin/login/")
        page.fill("[name=username]", user["email"])
        page.fill("[name=password]", user["password"])
        page.click("[type=submit]")
        page.wait_for_url("**/admin/")
        page.close()
        expect.set_options(timeout=PATIENCE_MS)
        yield context


@pytest.fixture
def desk(context: BrowserContext) -> Iterator[Page]:
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    yield page
    page.close()


@pytest.fixture
def wrong(desk: Page) -> list[str]:
    """What the page's scripts complained of, and what they asked, which is answered with yes."""
    said: list[str] = []

    def agree(dialog: Dialog) -> None:
        said.append(dialog.message)
        dialog.accept()

    desk.on("pageerror", lambda error: said.append(str(error)))
    desk.on("dialog", agree)
    return said


def product_of(shop: ServedShop, place: int) -> dict[str, object]:
    listed = httpx2.get(f"{shop.url}/api/products", params={"orderBy": "id"}, timeout=30).json()["data"]
    product: dict[str, object] = listed[place]
    return product


def open_form(desk: Page, shop: ServedShop, place: int) -> dict[str, object]:
    product = product_of(shop, place)
    desk.goto(f"{shop.url}/admin/commerce_catalog/product/{product['id']}/change/")
    expect(desk.locator("#description-writer")).to_be_visible()
    return product


def test_a_description_is_written_changed_and_used_by_keyboard(
    desk: Page, shop: ServedShop, provider: ProviderServer, wrong: list[str]
):
    provider.chosen, provider.texts = "good", [EVIL]
    open_form(desk, shop, 0)
    desk.locator("#writer-keywords").focus()
    desk.keyboard.type("brass, warm")
    desk.keyboard.press("Enter")

    expect(desk.locator("#writer-text")).to_have_value("The Velmo lamp glows.")
    expect(desk.locator("#writer-text")).to_be_focused()
    expect(desk.locator("#writer-status")).to_contain_text("kept as a draft")
    desk.keyboard.press("Control+End")
    desk.keyboard.type(" Ours.")
    desk.keyboard.press("Tab")
    expect(desk.locator("#writer-use")).to_be_focused()
    desk.keyboard.press("Enter")
    expect(desk.locator("#writer-status")).to_contain_text("It is saved.")
    expect(desk.locator("#id_description")).to_have_value("The Velmo lamp glows. Ours.")
    assert product_of(shop, 0)["description"] == "The Velmo lamp glows. Ours."
    assert wrong == []


def test_the_text_is_seen_while_it_is_written_and_escape_stops_it(
    desk: Page, shop: ServedShop, provider: ProviderServer, wrong: list[str]
):
    provider.chosen = "endless_text"
    before = open_form(desk, shop, 1)["description"]
    desk.locator("#writer-write").press("Enter")
    desk.wait_for_function("document.getElementById('writer-text').value.split('word').length > 4")
    assert desk.locator("#writer-text").get_attribute("readonly") is not None
    expect(desk.locator("#writer-use")).to_be_hidden()
    expect(desk.locator("#writer-stop")).to_be_focused()
    desk.keyboard.press("Escape")

    expect(desk.locator("#writer-status")).to_have_text("Stopped. Nothing was saved.")
    expect(desk.locator("#writer-use")).to_be_hidden()
    expect(desk.locator("#writer-write")).to_be_enabled()
    assert product_of(shop, 1)["description"] == before
    assert wrong == []


@pytest.mark.parametrize(
    ("behaviour", "told"),
    [("cut_short", "The text provider broke off."), ("error_500", "The text provider did not give")],
)
def test_what_is_not_complete_cannot_be_used(
    desk: Page, shop: ServedShop, provider: ProviderServer, wrong: list[str], behaviour: str, told: str
):
    provider.chosen = behaviour
    open_form(desk, shop, 1)
    desk.locator("#writer-write").click()

    expect(desk.locator("#writer-status")).to_contain_text(told)
    expect(desk.locator("#writer-use")).to_be_hidden()
    assert wrong == []


def test_a_draft_that_waits_is_taken_up_and_an_unsaved_description_is_asked_about(
    desk: Page, shop: ServedShop, provider: ProviderServer, wrong: list[str]
):
    provider.chosen, provider.texts = "good", ["The draft."]
    open_form(desk, shop, 2)
    desk.locator("#writer-write").click()
    expect(desk.locator("#writer-text")).to_have_value("The draft.")
    open_form(desk, shop, 2)
    desk.fill("#id_description", "Typed, and not saved.")
    desk.locator(".writer-drafts summary").press("Enter")
    desk.locator("[data-draft] button").press("Enter")
    expect(desk.locator("#writer-text")).to_have_value("The draft.")
    desk.locator("#writer-use").press("Enter")

    expect(desk.locator("#id_description")).to_have_value("The draft.")
    assert wrong == ["You have changed the description and not saved it. Replace it?"]
    assert product_of(shop, 2)["description"] == "The draft."
