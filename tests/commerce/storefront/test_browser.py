"""The storefront in a browser: by keyboard, at two widths, checked by axe."""

from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.chromium import running_chromium
from tests.commerce.live_server import ServedShop, manage, served_shop
from tests.commerce.search.embedding_server import EmbeddingServer
from tests.commerce.test_accessibility import LOOKS
from tests.page_checks import find_violations

FILL = """
from django.utils import timezone
from commerce.catalog.search.vectors.embedding import update_vectors
from commerce.catalog.search.indexing import update_index
from commerce.demo.full import seed_images
seed_images(seed=7, now=timezone.now(), report_progress=lambda *_: None)
update_index()
update_vectors(now=timezone.now(), max_seconds=60)
"""
WIDTHS = {"narrow": LOOKS["light"] | {"viewport": {"width": 320, "height": 700}}, "wide": LOOKS["dark"]}
PATIENCE_MS = 15_000

pytestmark = [pytest.mark.timeout(300), pytest.mark.no_database]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def shop() -> Iterator[ServedShop]:
    server = EmbeddingServer()
    server.start()
    with served_shop(provider_url=server.url, extra={"STOA_SEARCH_MODEL": "concepts"}) as shop:
        manage(shop.environment, "shell", "-v", "0", "-c", FILL)
        yield shop
    server.stop()


@pytest.fixture(params=WIDTHS)
def page(browser: Browser, shop: ServedShop, request: pytest.FixtureRequest) -> Iterator[Page]:
    context = browser.new_context(base_url=shop.url, **WIDTHS[request.param])
    page = context.new_page()
    page.set_default_timeout(PATIENCE_MS)
    failures: list[Any] = []
    page.on("pageerror", lambda error: failures.append(error))
    yield page
    context.close()
    assert failures == []


@pytest.mark.parametrize(
    "path",
    [
        "/shop/",
        "/shop/?q=lamp",
        "/shop/?q=nothing+such+as+xyzzy&in_stock=0",
        "/shop/products/ostara-dinner-plate/",
        "/shop/products/absent/",
        "/shop/?price_from=abc",
    ],
)
def test_axe_finds_no_violation_and_nothing_is_wider_than_the_window(page: Page, path: str) -> None:
    page.goto(path)
    page.wait_for_load_state("networkidle")
    assert find_violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")


def test_a_shopper_finds_a_product_by_keyboard_alone(page: Page) -> None:
    page.goto("/shop/")
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Shift+Tab")
    box = page.get_by_role("combobox", name="Search for products")
    expect(box).to_be_focused()
    page.keyboard.type("oakh")
    expect(page.locator("#suggestions option")).to_have_count(1)
    assert page.locator("#suggestions option").get_attribute("value") == "Oakhurst Table Lamp"
    box.fill("something for the dark")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Results for “something for the dark”")
    page.get_by_role("link", name="Oakhurst Table Lamp").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Oakhurst Table Lamp")
    expect(page.get_by_role("heading", name="Similar products")).to_be_visible()
    assert page.locator(".card").count() == 6


def test_pictures_are_shown(page: Page) -> None:
    page.goto("/shop/")
    page.wait_for_load_state("networkidle")
    page.evaluate("document.querySelectorAll('img').forEach(one => one.loading = 'eager')")
    page.wait_for_function("[...document.images].every(one => one.complete && one.naturalWidth)")
    assert page.locator(".card img").count() == 20


def test_without_scripts_the_form_and_the_filters_work(browser: Browser, shop: ServedShop) -> None:
    context = browser.new_context(base_url=shop.url, java_script_enabled=False)
    page = context.new_page()
    page.goto("/shop/")
    page.get_by_label("Search for products").fill("stove")
    page.get_by_role("button", name="Search").click()
    expect(page.locator(".card").first).to_contain_text("Ember Camp Stove")
    page.get_by_role("link", name="100 to 250 EUR").click()
    expect(page.locator(".facets [aria-current]")).to_contain_text("100 to 250 EUR")
    expect(page.locator(".card")).to_have_count(2)
    context.close()
