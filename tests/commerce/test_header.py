"""The header of the shop's pages in a browser."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.chromium import running_chromium, sign_in
from tests.commerce.live_server import ServedShop, served_shop
from tests.page_checks import check_page, follow_by_keyboard

MODEL_SERVER = "https://models.example"
TITLES = ["Shop", "Shop admin", "Shop API", "Model server", "Playground", "Model server API"]

pytestmark = [pytest.mark.timeout(300), pytest.mark.no_database]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def shop() -> Iterator[ServedShop]:
    with served_shop(provider_url="http://127.0.0.1:9", extra={"STOA_MODEL_SERVER_PUBLIC_URL": MODEL_SERVER}) as shop:
        yield shop


# The rest of the documentation's page is Swagger UI's.
@pytest.mark.parametrize(("path", "part"), [("/", None), ("/shop/", None), ("/api/docs", ".site-header")])
def test_axe_finds_no_violation_at_any_width(browser: Browser, shop: ServedShop, path: str, part: str | None):
    check_page(browser, shop.url + path, part=part)


@pytest.mark.parametrize("path", ["/", "/shop/", "/api/docs"])
def test_the_header_is_used_by_keyboard(browser: Browser, shop: ServedShop, path: str):
    follow_by_keyboard(browser, shop.url + path, TITLES)


def test_a_visitor_signs_in_from_the_header_and_comes_back(browser: Browser, shop: ServedShop):
    owner = next(user for user in shop.users if user["role"] == "STORE_OWNER")
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{shop.url}/shop/")
    page.get_by_role("link", name="Sign in").click()
    page.fill("[name=username]", owner["email"])
    page.fill("[name=password]", owner["password"])
    page.click("[type=submit]")

    page.wait_for_url("**/shop/")
    expect(page.locator(".site-user")).to_have_text(f"Signed in as {owner['email']}")
    for path in ("/", "/shop/", "/api/docs"):
        response = page.request.get(shop.url + path, headers={"Accept": "text/html"})  # not shown, which takes seconds
        assert owner["email"] in response.text()
        assert response.headers["cache-control"] == "no-store", path  # row X4
        assert "frame-ancestors 'none'" in response.headers["content-security-policy"], path
    page.get_by_role("link", name="Shop admin").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Dashboard")
    context.close()


def test_an_operation_is_tried_on_the_page_of_the_api_whose_policy_blocks_nothing_of_it(
    browser: Browser, shop: ServedShop
):
    page = browser.new_page()
    messages: list[str] = []
    page.on("console", lambda message: messages.append(message.text))
    response = page.goto(f"{shop.url}/api/docs")
    assert response is not None
    assert "script-src 'self';" in response.headers["content-security-policy"]
    operation = page.locator(".opblock", has=page.locator('[data-path="/api/abusive_reports"]')).first
    operation.locator(".opblock-summary-control").click()
    operation.get_by_role("button", name="Try it out").click()
    operation.get_by_role("button", name="Execute", exact=True).click()
    expect(operation.locator(".live-responses-table .response-col_status").last).to_contain_text("401")
    assert [text for text in messages if "Content Security Policy" in text] == []
    page.close()


def test_the_admin_shows_the_same_links_in_the_language_of_the_browser(browser: Browser, shop: ServedShop):
    admin = next(user for user in shop.users if user["role"] == "SUPER_ADMIN")
    context = browser.new_context(locale="de-DE")
    sign_in(context, f"{shop.url}/admin/", email=admin["email"], password=admin["password"])
    page = context.new_page()
    page.goto(f"{shop.url}/admin/")
    links = page.locator("nav, aside, #nav-sidebar").get_by_role("link")
    titles = [title.strip() for title in links.all_inner_texts()]

    start = titles.index("Shop")
    assert titles[start : start + 6] == [
        "Shop",
        "Shop-Admin",
        "Shop-API",
        "Modellserver",
        "Playground",
        "Modellserver-API",
    ]
    context.close()
