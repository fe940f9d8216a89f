"""Tests of the description writer in a real browser, by keyboard."""

import re
from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import Browser, BrowserContext, Dialog, Page, expect

from tests import chromium
from tests.chromium import running_chromium
from tests.commerce.descriptions.provider.fake_server import ProviderServer
from tests.commerce.live_server import ServedShop, served_shop
from tests.page_checks import LOOKS, check_look, find_violations

TIMEOUT_MS = 60_000

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
def browser() -> Iterator[Browser]:
    expect.set_options(timeout=TIMEOUT_MS)
    with running_chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def context(browser: Browser, shop: ServedShop) -> BrowserContext:
    return sign_in(browser, shop)


def sign_in(browser: Browser, shop: ServedShop, role: str = "SUPER_ADMIN") -> BrowserContext:
    """Return a context of the browser in which a user with this role is signed in."""
    user = next(user for user in shop.users if user["role"] == role)
    context = browser.new_context()
    context.set_default_timeout(TIMEOUT_MS)
    chromium.sign_in(context, f"{shop.url}/admin/", email=user["email"], password=user["password"])
    return context


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


def write(page: Page, *keywords: str) -> None:
    page.locator("#writer-keywords").fill(", ".join(keywords))
    page.keyboard.press("Enter")


def open_drafts_of(shop: ServedShop, product: dict[str, object]) -> list[str]:
    headers = shop.headers("SUPER_ADMIN")
    answer = httpx2.get(f"{shop.url}/api/description-drafts", params={"limit": 100}, headers=headers, timeout=30)
    return [
        row["text"] for row in answer.json()["data"] if (row["product_id"], row["state"]) == (product["id"], "open")
    ]


def test_one_of_three_variants_is_chosen_edited_and_used_by_keyboard(
    page: Page, shop: ServedShop, provider: ProviderServer, messages: list[str]
):
    product = open_form(page, shop, 0)
    name = product["name"]
    texts = [f"Meet the {name}. It is made of brass.", f"This is the {name}. It is made of brass."]
    third = f"<img src=x onerror=alert(1)> Here is the **{name}**. It is made of brass."
    provider.selected, provider.texts = "several", [*texts, third, f"The {name} of brass, which"]
    write(page, "brass")

    variants = page.locator("#writer-variants")
    expect(variants).to_be_focused()
    expect(page.locator("#writer-status")).to_contain_text("saved as drafts")
    expect(variants.locator(".writer-draft")).to_have_text([*texts, f"Here is the {name}. It is made of brass."])
    expect(variants.locator("li")).to_contain_text(["Says nothing that is not in the product's data."] * 3)
    expect(variants.locator("mark")).to_have_count(0)
    assert f"Product name: {name}\nKeywords: brass" in page.locator("#writer-told").inner_text()
    page.keyboard.press("Tab")
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Choose variant 2")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#writer-text")).to_have_value(texts[1])
    expect(page.locator("#writer-text")).to_be_focused()
    page.keyboard.press("Control+End")
    page.keyboard.type(" Ours.")
    page.keyboard.press("Tab")
    expect(page.locator("#writer-use")).to_be_focused()
    page.keyboard.press("Enter")

    expect(page.locator("#writer-status")).to_contain_text("Saved as the product's description.")
    expect(page.locator("#id_description")).to_have_value(f"{texts[1]} Ours.")
    expect(page.locator("#writer-result")).to_be_hidden()
    assert read_product(shop, 0)["description"] == f"{texts[1]} Ours."
    assert open_drafts_of(shop, product) == []
    assert messages == []


def test_what_is_not_in_the_products_data_is_marked_and_listed(
    page: Page, shop: ServedShop, provider: ProviderServer, messages: list[str]
):
    product = open_form(page, shop, 1)
    kept, invented = (f"Meet the {product['name']}. {rest}" for rest in ("It is made of brass.", "It has 3 oak feet."))
    provider.selected, provider.texts = "several", [invented, kept, "Cut off, as it"]
    write(page, "brass")

    cards = page.locator("#writer-variants li")
    expect(cards).to_have_count(2)
    expect(cards.nth(0).locator("mark")).to_have_count(0)
    expect(cards.nth(1).locator("mark")).to_have_text(["3", "oak"])
    expect(cards.nth(1)).to_contain_text("Not in the product's data: 3, oak")
    expect(cards.nth(1)).to_contain_text("Not mentioned: brass")
    underlined = cards.nth(1).locator("mark").first.evaluate("mark => getComputedStyle(mark).textDecorationLine")
    assert underlined == "underline"  # not by its color alone
    for scheme, width, options in LOOKS:
        page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
        page.set_viewport_size({"width": width, "height": 800})
        assert find_violations(page, "#description-writer", **options) == [], (scheme, width)

    page.get_by_role("button", name="Choose variant 2").click()
    page.locator("#writer-discard").click()
    expect(page.locator("#writer-status")).to_have_text("Discarded.")
    expect(cards).to_have_count(1)
    page.reload()
    page.locator(".writer-drafts summary").click()
    expect(page.locator(".writer-drafts .writer-draft")).to_have_text([kept])
    assert messages == []


def test_the_form_proposes_the_values_of_the_products_attributes(page: Page, shop: ServedShop, messages: list[str]):
    listed = httpx2.get(f"{shop.url}/api/products", params={"search": "name:Ostara Dinner Plate"}, timeout=30).json()
    page.goto(f"{shop.url}/admin/commerce_catalog/product/{listed['data'][0]['id']}/change/")

    keywords = page.locator("#writer-keywords")
    expect(keywords).to_have_value("Sand, Charcoal, Moss, Stoneware, Dishwasher-safe")
    expect(keywords).to_have_accessible_description(re.compile("^Proposed from the product's attributes"))
    assert messages == []


def test_escape_stops_the_writing(page: Page, shop: ServedShop, provider: ProviderServer, messages: list[str]):
    provider.selected = "endless_text"
    product = open_form(page, shop, 2)
    page.locator("#writer-write").press("Enter")
    expect(page.locator("#writer-stop")).to_be_focused()
    page.keyboard.press("Escape")

    expect(page.locator("#writer-status")).to_have_text("Stopped. Nothing was saved.")
    expect(page.locator("#writer-result")).to_be_hidden()
    expect(page.locator("#writer-write")).to_be_focused()
    assert open_drafts_of(shop, product) == []
    assert messages == []


@pytest.mark.parametrize("behavior", ["truncated", "error_500", "wordless", "no_http"])
def test_a_failed_draft_says_what_to_do_and_saves_nothing(
    page: Page, shop: ServedShop, provider: ProviderServer, messages: list[str], behavior: str
):
    provider.selected = behavior
    product = open_form(page, shop, 3)
    page.locator("#writer-write").click()

    expect(page.locator("#writer-status")).to_have_text("The text provider did not return a description. Try again.")
    expect(page.locator("#writer-result")).to_be_hidden()
    expect(page.locator("#writer-write")).to_be_focused()
    assert open_drafts_of(shop, product) == []
    assert messages == []


def test_without_a_model_server_the_form_says_so_and_the_product_can_be_saved(browser: Browser):
    with served_shop(provider_url="http://127.0.0.1:9/v1") as shop:
        context = sign_in(browser, shop)
        page = context.new_page()
        open_form(page, shop, 0)
        page.locator("#writer-write").click()
        expect(page.locator("#writer-status")).to_have_text(
            "The text provider did not return a description. Try again."
        )
        page.fill("#id_description", "Written by hand.")
        page.get_by_role("button", name="Save", exact=True).click()
        page.wait_for_url("**/product/")
        assert read_product(shop, 0)["description"] == "Written by hand."
        context.close()


def test_open_draft_is_used_after_a_warning_about_unsaved_changes(
    page: Page, shop: ServedShop, provider: ProviderServer, messages: list[str]
):
    product = open_form(page, shop, 4)
    text = f"Meet the {product['name']}."
    provider.selected, provider.texts = "several", [text]
    write(page)
    expect(page.locator("#writer-variants .writer-draft")).to_have_text([text])
    open_form(page, shop, 4)
    page.fill("#id_description", "Typed, and not saved.")
    page.locator(".writer-drafts summary").press("Enter")
    page.locator("[data-draft] button").press("Enter")
    expect(page.locator("#writer-text")).to_have_value(text)
    page.locator("#writer-use").press("Enter")

    expect(page.locator("#id_description")).to_have_value(text)
    assert messages == ["The description has unsaved changes. Replace it?"]
    assert read_product(shop, 4)["description"] == text


def test_an_owner_uses_a_variant_on_the_page_of_product_texts(
    browser: Browser, shop: ServedShop, provider: ProviderServer
):
    context = sign_in(browser, shop, "STORE_OWNER")
    page = context.new_page()
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    page.goto(f"{shop.url}/admin/dashboard/")
    page.get_by_role("link", name="Product texts").press("Enter")
    check_look(page)
    page.locator(".dash-texts a").first.press("Enter")
    expect(page.locator("#description-writer")).to_be_visible()
    check_look(page)
    name = page.get_by_role("heading", level=1).inner_text()
    texts = [f"Meet the {name}. It is made of brass.", f"This is the {name}. It has 3 oak feet."]
    provider.selected, provider.texts = "several", [*texts, "Cut off, as it"]
    write(page, "brass")
    expect(page.locator("#writer-variants .writer-draft")).to_have_text(texts)
    check_look(page)

    page.get_by_role("button", name="Choose variant 1").press("Enter")
    page.locator("#writer-use").press("Enter")

    expect(page.locator("#writer-status")).to_have_text("Saved as the product's description.")
    expect(page.get_by_label("Current description")).to_have_value(texts[0])
    expect(page.get_by_label("Current description")).to_be_focused()
    page.reload()
    expect(page.get_by_label("Current description")).to_have_value(texts[0])
    expect(page.locator(".writer-drafts")).to_have_count(0)
    product_id = page.url.rstrip("/").rpartition("/")[2]
    read = httpx2.get(f"{shop.url}/api/products/{product_id}", timeout=30).json()
    assert read["description"] == texts[0]
    assert problems == []
    context.close()
