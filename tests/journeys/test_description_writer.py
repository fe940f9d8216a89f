"""A super admin generates a description on the product form of the admin, and saves it."""

import httpx2
import pytest
from playwright.sync_api import expect

from tests.chromium import running_chromium
from tests.running_stoa import RunningStoa

TIMEOUT_MS = 60_000
# Counts how often the text on the page changes.
COUNT_CHANGES = """
window.changes = 0;
const value = Object.getOwnPropertyDescriptor(HTMLTextAreaElement.prototype, "value");
Object.defineProperty(document.getElementById("writer-text"), "value", {
  get() { return value.get.call(this); },
  set(text) { window.changes += 1; value.set.call(this, text); },
});
"""


@pytest.mark.timeout(600)
def test_a_description_streams_into_the_product_form_and_is_saved(stoa: RunningStoa):
    product = httpx2.get(f"{stoa.commerce_url}/api/products", timeout=30).json()["data"][0]
    user = next(user for user in stoa.users if user["role"] == "SUPER_ADMIN")
    expect.set_options(timeout=TIMEOUT_MS)
    with running_chromium() as browser:
        page = browser.new_page()
        page.set_default_timeout(TIMEOUT_MS)
        page.goto(f"{stoa.commerce_url}/admin/login/?next=/admin/commerce_catalog/product/{product['id']}/change/")
        page.fill("[name=username]", user["email"])
        page.fill("[name=password]", user["password"])
        page.click("[type=submit]")
        page.wait_for_selector("#writer-write:visible")
        page.evaluate(COUNT_CHANGES)
        page.locator("#writer-write").press("Enter")
        expect(page.locator("#writer-use")).to_be_visible()
        changes = page.evaluate("window.changes")
        page.locator("#writer-use").press("Enter")
        expect(page.locator("#writer-status")).to_contain_text("Saved as the product's description.")
        saved = page.locator("#id_description").input_value()

    assert changes > 5  # the text was streamed
    shown = httpx2.get(f"{stoa.commerce_url}/api/products/{product['id']}", timeout=30).json()
    assert shown["description"] == saved != ""
