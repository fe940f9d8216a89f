"""Somebody who runs the platform has a description written on the product form, by our own model, and uses it."""

import httpx2
import pytest
from playwright.sync_api import expect

from tests.chromium import running_chromium
from tests.running_stoa import RunningStoa

PATIENCE_MS = 60_000
# Counts how often the text on the page becomes another.
SEE = """
window.seen = 0;
const value = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value");
Object.defineProperty(document.getElementById("writer-text"), "value", {
  get() { return value.get.call(this); },
  set(text) { window.seen += 1; value.set.call(this, text); },
});
"""


@pytest.mark.timeout(600)
def test_a_description_streams_into_the_product_form_and_becomes_the_products(stoa: RunningStoa):
    product = httpx2.get(f"{stoa.commerce_url}/api/products", timeout=30).json()["data"][0]
    user = next(user for user in stoa.users if user["role"] == "SUPER_ADMIN")
    expect.set_options(timeout=PATIENCE_MS)
    with running_chromium() as browser:
        page = browser.new_page()
        page.set_default_timeout(PATIENCE_MS)
        page.goto(f"{stoa.commerce_url}/admin/login/?next=/admin/commerce_catalog/product/{product['id']}/change/")
        page.fill("[name=username]", user["email"])
        page.fill("[name=password]", user["password"])
        page.click("[type=submit]")
        page.wait_for_selector("#writer-write:visible")
        page.evaluate(SEE)
        page.locator("#writer-write").press("Enter")
        expect(page.locator("#writer-use")).to_be_visible()
        pieces = page.evaluate("window.seen")
        page.locator("#writer-use").press("Enter")
        expect(page.locator("#writer-status")).to_contain_text("Saved as the product's description.")
        used = page.locator("#id_description").input_value()

    assert pieces > 5  # it grew before the reader's eyes
    shown = httpx2.get(f"{stoa.commerce_url}/api/products/{product['id']}", timeout=30).json()
    assert shown["description"] == used != ""
