"""A super admin chooses one of several descriptions on the product form of the admin, and saves it."""

import httpx2
import pytest
from playwright.sync_api import expect

from tests.chromium import running_chromium
from tests.running_stoa import RunningStoa

TIMEOUT_MS = 60_000


@pytest.mark.timeout(600)
def test_a_variant_of_a_description_is_chosen_on_the_product_form_and_saved(stoa: RunningStoa):
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
        page.locator("#writer-write").press("Enter")
        variants = page.locator("#writer-variants li")
        expect(variants.first).to_be_visible()
        count = variants.count()
        page.get_by_role("button", name="Choose variant 1").press("Enter")
        page.locator("#writer-use").press("Enter")
        expect(page.locator("#writer-status")).to_contain_text("Saved as the product's description.")
        saved = page.locator("#id_description").input_value()

    assert count <= 3
    shown = httpx2.get(f"{stoa.commerce_url}/api/products/{product['id']}", timeout=30).json()
    assert shown["description"] == saved != ""
