"""The dashboard in a real browser: every chart is drawn and named, it fits a phone and a sheet of paper, and what is
chosen is what is shown."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.chromium import running_chromium
from tests.commerce.served import ServedShop, manage, served_shop

PATIENCE_MS = 60_000
WIDTHS = {"desk": 1280, "phone": 375}

pytestmark = pytest.mark.timeout(600)


@pytest.fixture(scope="module")
def shop() -> Iterator[ServedShop]:
    """One with orders over two years."""
    with served_shop(provider_url="http://127.0.0.1:9") as served:
        manage(served.environment, "seed", "--orders", "300")
        yield served


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_chromium() as browser:
        expect.set_options(timeout=PATIENCE_MS)
        yield browser


def dashboard_of(role: str, shop: ServedShop, browser: Browser, width: int) -> tuple[Page, list[str]]:
    """The page, and what goes wrong on it."""
    user = next(user for user in shop.users if user["role"] == role)
    page = browser.new_page(viewport={"width": width, "height": 900})
    page.set_default_timeout(PATIENCE_MS)
    wrong: list[str] = []
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("requestfailed", lambda request: wrong.append(request.url))
    page.on("request", lambda request: None if request.url.startswith(shop.url) else wrong.append(request.url))
    page.goto(f"{shop.url}/admin/dashboard/")
    page.fill("[name=username]", user["email"])
    page.fill("[name=password]", user["password"])
    page.click("[type=submit]")
    page.wait_for_url("**/admin/dashboard/")
    page.goto(f"{shop.url}/admin/dashboard/?from=2024-01-01")
    return page, wrong


@pytest.mark.parametrize("role", ["SUPER_ADMIN", "STORE_OWNER", "STAFF"])
@pytest.mark.parametrize("width", WIDTHS.values(), ids=WIDTHS)
def test_every_chart_is_drawn_and_named_and_nothing_is_cut_off(
    shop: ServedShop, browser: Browser, role: str, width: int
):
    page, wrong = dashboard_of(role, shop, browser, width)

    charts = page.locator("svg[role=img]")
    assert charts.count() >= 2
    for chart in charts.all():
        assert "The same numbers are in the table below." in chart.locator("title").first.text_content()
        box = chart.bounding_box()
        assert box
        assert box["x"] >= 0
        assert box["x"] + box["width"] <= width
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert wrong == []
    page.close()


def test_days_that_are_chosen_are_the_days_that_are_shown(shop: ServedShop, browser: Browser):
    page, wrong = dashboard_of("SUPER_ADMIN", shop, browser, WIDTHS["desk"])

    page.fill("[name=from]", "2026-01-01")
    page.fill("[name=to]", "2026-01-01")
    page.locator("[name=to]").press("Enter")
    page.wait_for_url("**from=2026-01-01*")
    expect(page.locator(".dash-scope")).to_contain_text("1 Jan 2026, in")
    assert wrong == []
    page.close()


def test_it_prints_on_paper(shop: ServedShop, browser: Browser):
    page, wrong = dashboard_of("STORE_OWNER", shop, browser, WIDTHS["desk"])

    page.emulate_media(media="print")
    assert page.locator("svg[role=img]").first.is_visible()
    assert not page.locator("[name=from]").is_visible()
    assert page.pdf(format="A4")[:5] == b"%PDF-"
    assert wrong == []
    page.close()
