"""A customer reports a review over the API, and a moderator takes it down in the queue, by keyboard."""

from urllib.parse import urlsplit

import httpx2
import pytest
from playwright.sync_api import expect

from tests.chromium import running_chromium, sign_in
from tests.running_stoa import RunningStoa

TIMEOUT_MS = 60_000
QUEUE = "/admin/commerce_moderation/case/"
MESSAGE = "It advertises another shop."


@pytest.mark.timeout(600)
def test_a_customers_report_is_decided_in_the_queue_by_keyboard(stoa: RunningStoa):
    customer = {"Authorization": f"Bearer {stoa.login('CUSTOMER')}"}
    moderator = next(user for user in stoa.users if user["role"] == "MODERATOR")
    with httpx2.Client(base_url=stoa.commerce_url, timeout=30) as shop, running_chromium() as browser:
        review = shop.get("/api/reviews", params={"rating": 5}).json()["data"][0]
        report = {"model_type": "Review", "model_id": review["id"], "message": MESSAGE, "reason": "spam"}
        filed = shop.post("/api/abusive_reports", json=report, headers=customer)
        assert filed.status_code == 201, filed.text

        context = browser.new_context()
        sign_in(context, stoa.commerce_url + QUEUE, email=moderator["email"], password=moderator["password"])
        page = context.new_page()
        page.set_default_timeout(TIMEOUT_MS)
        page.goto(stoa.commerce_url + QUEUE)
        item = page.locator("#item")
        expect(item).to_contain_text(MESSAGE)  # the newest report is the first
        expect(item.locator(".mod-text").first).to_have_text(review["comment"])
        page.keyboard.press("a")
        expect(page.locator("#outcome")).to_contain_text("Taken down", timeout=TIMEOUT_MS)
        expect(item).not_to_contain_text(MESSAGE)
        assert urlsplit(page.url).path == QUEUE

        assert shop.get(f"/api/reviews/{review['id']}").status_code == 404
        (mine,) = (
            row
            for row in shop.get("/api/my-reports", headers=customer).json()["data"]
            if row["id"] == filed.json()["id"]
        )
        assert mine["status"] == "accepted"
