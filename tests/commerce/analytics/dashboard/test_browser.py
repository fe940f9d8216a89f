"""The dashboard in a real browser, on a desktop, on a phone and in print."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.chromium import running_chromium, sign_in
from tests.commerce.live_server import ServedShop, manage, served_shop

FILL = """
from commerce.demo.full import seed_catalog, seed_orders
from django.utils import timezone
seed_catalog(seed=7, now=timezone.now())
seed_orders(seed=7, count=300, now=timezone.now(), report_progress=lambda *_: None)
"""
TIMEOUT_MS = 60_000
WIDTHS = {"desktop": 1280, "phone": 375}

pytestmark = [pytest.mark.timeout(600), pytest.mark.no_database]


@pytest.fixture(scope="module")
def shop() -> Iterator[ServedShop]:
    """Serve a shop with orders over two years."""
    with served_shop(provider_url="http://127.0.0.1:9") as served:
        manage(served.environment, "shell", "-v", "0", "-c", FILL)
        yield served


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_chromium() as browser:
        expect.set_options(timeout=TIMEOUT_MS)
        yield browser


def open_dashboard(role: str, shop: ServedShop, browser: Browser, width: int) -> tuple[Page, list[str]]:
    """Return the page, and the list of its script errors, failed requests and requests to other hosts."""
    user = next(user for user in shop.users if user["role"] == role)
    context = browser.new_context(viewport={"width": width, "height": 900})
    sign_in(context, f"{shop.url}/admin/dashboard/", email=user["email"], password=user["password"])
    page = context.new_page()
    page.set_default_timeout(TIMEOUT_MS)
    problems: list[str] = []
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("requestfailed", lambda request: problems.append(request.url))
    page.on("request", lambda request: None if request.url.startswith(shop.url) else problems.append(request.url))
    page.goto(f"{shop.url}/admin/dashboard/?from=2024-01-01")
    return page, problems


@pytest.mark.parametrize("role", ["SUPER_ADMIN", "STORE_OWNER", "STAFF"])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_every_chart_is_visible_labelled_and_fits_the_width(shop: ServedShop, browser: Browser, role: str, width: int):
    page, problems = open_dashboard(role, shop, browser, width)

    charts = page.locator("svg[role=img]")
    assert charts.count() >= 2
    for chart in charts.all():
        assert "The same numbers are in the table below." in chart.locator("title").first.text_content()
        box = chart.bounding_box()
        assert box
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert problems == []
    page.context.close()


def test_the_chosen_days_are_shown(shop: ServedShop, browser: Browser):
    page, problems = open_dashboard("SUPER_ADMIN", shop, browser, WIDTHS["desktop"])

    page.fill("[name=from]", "2026-01-01")
    page.fill("[name=to]", "2026-01-01")
    page.locator("[name=to]").press("Enter")
    page.wait_for_url("**from=2026-01-01*")
    expect(page.locator(".dash-scope")).to_contain_text("1 Jan 2026, in")
    assert problems == []
    page.context.close()


def test_the_page_prints_to_a_pdf(shop: ServedShop, browser: Browser):
    page, problems = open_dashboard("STORE_OWNER", shop, browser, WIDTHS["desktop"])

    page.emulate_media(media="print")
    assert page.locator("svg[role=img]").first.is_visible()
    assert not page.locator("[name=from]").is_visible()
    assert page.pdf(format="A4")[:5] == b"%PDF-"
    assert problems == []
    page.context.close()
