# ruff: noqa: E501 the page is as a browser reads it
"""A storefront's page in a browser, served by another origin: it lists and filters products, and signs in."""

import functools
import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.chromium import running_chromium
from tests.commerce.live_server import ServedShop, served_shop

pytestmark = [pytest.mark.no_database, pytest.mark.timeout(180)]

PAGE = """<!doctype html><title></title><ul id=products></ul><p id=name></p><p id=missing></p><script>
const api = new URLSearchParams(location.search).get("api");
const call = (path, options) => fetch(`${api}/api/${path}`, options).then(async answer => [answer.status, await answer.json()]);
const json = {"Content-Type": "application/json", "Authorization": "Bearer "};
async function start(search, email, password) {
  const [, settings] = await call("settings/?language=en", {headers: json});
  document.title = settings.options.siteTitle;
  const [, page] = await call(`products?searchJoin=and&with=type;author&limit=30&search=${search}`, {headers: json});
  for (const product of page.data) {
    const price = new Intl.NumberFormat(settings.options.currencyOptions.formation,
      {style: "currency", currency: settings.options.currency}).format(product.price);
    const row = document.createElement("li");
    row.textContent = `${product.name} ${price}`;
    products.append(row);
  }
  const [, pair] = await call("token", {method: "POST", headers: json, body: JSON.stringify({email, password})});
  const [, me] = await call("me/", {headers: {...json, Authorization: `Bearer ${pair.token}`}});
  document.getElementById("name").textContent = `${me.email} ${pair.permissions.join()}`;
  const [status, error] = await call("my-wishlists", {headers: json});
  missing.textContent = `${status} ${error.code}`;
}
</script>"""


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args: object) -> None: ...


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder: Path = tmp_path_factory.mktemp("storefront")
    (folder / "index.html").write_text(PAGE)
    handler = functools.partial(QuietHandler, directory=str(folder))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


@pytest.fixture(scope="module")
def shop(origin: str) -> Iterator[ServedShop]:
    with served_shop(provider_url="http://127.0.0.1:9", extra={"STOA_CORS_ORIGINS": origin}) as served:
        yield served


def put_settings(shop: ServedShop, headers: dict[str, str], **options: object) -> None:
    answer = httpx2.put(f"{shop.url}/api/settings", json={"options": options}, headers=headers, timeout=30)
    assert answer.status_code == 200, answer.text


def test_a_page_of_another_origin_lists_and_filters_products_and_signs_in(shop: ServedShop, origin: str):
    put_settings(shop, shop.headers("SUPER_ADMIN"), siteTitle="Corner shop")
    product = httpx2.get(f"{shop.url}/api/products", timeout=30).json()["data"][0]
    customer = next(user for user in shop.users if user["role"] == "CUSTOMER")

    with running_chromium() as browser:
        page = browser.new_page()
        page.goto(f"{origin}/index.html?api={shop.url}")
        search = f"name:{product['name']};status:publish"
        page.evaluate("([search, email, password]) => start(search, email, password)",
                      [search, customer["email"], customer["password"]])  # fmt: skip

        assert page.title() == "Corner shop"
        rows = page.locator("li").all_inner_texts()
        assert rows
        assert all(row.startswith(product["name"]) for row in rows)
        assert page.locator("#name").inner_text() == f"{customer['email']} customer"
        assert page.locator("#missing").inner_text() == "404 not_found"


def test_maintenance_of_a_running_server_is_readable_for_a_page_of_another_origin(shop: ServedShop, origin: str):
    headers, path = shop.headers("SUPER_ADMIN"), f"{shop.url}/api/products"
    put_settings(shop, headers, isUnderMaintenance=True)
    try:
        refused = httpx2.get(path, headers={"Origin": origin}, timeout=30)
        assert (refused.status_code, refused.json()["code"]) == (503, "maintenance")
        assert refused.headers["Access-Control-Allow-Origin"] == origin
        assert httpx2.get(path, headers=headers, timeout=30).status_code == 200
        opened = httpx2.get(f"{shop.url}/api/settings/", headers={"Origin": origin}, timeout=30)
        assert opened.json()["options"]["isUnderMaintenance"] is True
    finally:
        put_settings(shop, headers, isUnderMaintenance=False)
    assert httpx2.get(path, timeout=30).status_code == 200
