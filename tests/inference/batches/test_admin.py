"""The operators' pages of batches, in a browser where one is installed."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.chromium import running_chromium
from tests.inference.batches.workers import ended, running_worker, status, submit
from tests.inference.served import PASSWORD, ServedStoa

BATCHES = "/admin/inference_batches/batch/"


@pytest.fixture
def page(stoa: ServedStoa) -> Iterator[Page]:
    """A browser in which the super admin has signed in."""
    with running_chromium() as browser:
        page = browser.new_page()
        page.set_default_timeout(60_000)
        page.goto(f"{stoa.url}/admin/")
        page.fill("input[name=username]", "super_admin@example.com")
        page.fill("input[name=password]", PASSWORD)
        page.click("button[type=submit]")
        yield page


def act(page: Page, batch_id: str, action: str) -> None:
    page.locator("tr", has_text=batch_id).locator("input.action-select").check()
    page.locator("select[name=action]").select_option(action)
    page.get_by_role("button", name="Run", exact=False).first.click()


@pytest.mark.timeout(300)
def test_an_operator_sees_why_requests_failed_tries_them_again_and_cancels(stoa: ServedStoa, page: Page):
    batch_id = submit(stoa, "speak", "long", "a secret prompt", "long")
    with running_worker(stoa):
        ended(stoa, batch_id)
    waiting = submit(stoa, "speak")

    page.goto(stoa.url + BATCHES)
    row = page.locator("tr", has_text=batch_id)
    expect(row).to_contain_text("Completed")
    expect(row).to_contain_text("2 of 4, 2 failed")
    row.get_by_text(batch_id).click()
    body = page.locator("body")
    expect(body).to_contain_text("CONTEXT_LENGTH_EXCEEDED: 2")
    expect(body).to_contain_text("r1")
    expect(body).not_to_contain_text("a secret prompt")

    page.goto(stoa.url + BATCHES)
    act(page, batch_id, "retry")
    expect(body).to_contain_text(f"{batch_id}: 2 requests are tried again")
    act(page, waiting, "cancel")
    expect(body).to_contain_text("Cancelled: 1.")
    assert status(stoa, waiting)["status"] == "cancelled"
    assert status(stoa, batch_id)["failed"] == 2
