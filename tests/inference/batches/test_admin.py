"""Admin of batches in a browser, where one is installed."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from tests.chromium import running_chromium, sign_in
from tests.inference.batches.workers import get_status, running_worker, submit_batch, wait_until_ended
from tests.inference.running_server import PASSWORD, RunningServer

BATCHES = "/admin/inference_batches/batch/"

pytestmark = pytest.mark.no_database


@pytest.fixture
def page(stoa: RunningServer) -> Iterator[Page]:
    """Yield a browser page where the super admin is signed in."""
    with running_chromium() as browser:
        context = browser.new_context()
        sign_in(context, stoa.url + BATCHES, email="super_admin@example.com", password=PASSWORD)
        page = context.new_page()
        page.set_default_timeout(60_000)
        yield page


def act(page: Page, batch_id: str, action: str) -> None:
    page.locator("tr", has_text=batch_id).locator("input.action-select").check()
    page.locator("select[name=action]").select_option(action)
    page.get_by_role("button", name="Run", exact=False).first.click()


@pytest.mark.timeout(300)
def test_an_operator_reads_failures_retries_them_and_cancels_a_batch(stoa: RunningServer, page: Page):
    batch_id = submit_batch(stoa, "speak", "long", "a secret prompt", "long")
    with running_worker(stoa):
        wait_until_ended(stoa, batch_id)
    waiting = submit_batch(stoa, "speak")

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
    expect(body).to_contain_text(f"{batch_id}: retrying 2 requests")
    act(page, waiting, "cancel")
    expect(body).to_contain_text("Cancelled batches: 1.")
    assert get_status(stoa, waiting)["status"] == "cancelled"
    assert get_status(stoa, batch_id)["failed"] == 2
