"""Admin of webhooks in a browser, where one is installed."""

import subprocess
import sys
from collections.abc import Iterator

import httpx2
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.chromium import running_chromium, sign_in
from tests.inference.engine.processes import REPOSITORY
from tests.inference.running_server import PASSWORD, RunningServer

ENDPOINTS, DELIVERIES = (f"/admin/inference_webhooks/{name}/" for name in ("endpoint", "delivery"))
PUBLIC = "https://93.184.216.34"

# Two deliveries to a user's endpoint: one has failed.
_FILL = """
import django
django.setup()
from django.utils import timezone
from shared.webhooks.models import Attempt, Delivery, DeliveryState
from shared.webhooks.services import announce
from shared.accounts.models import User
now = timezone.now()
user = User.objects.get(email="store_owner@example.com")
for number in range(2):
    announce(user=user, url=None, event="batch.complete", data={"number": number}, now=now)
given_up = Delivery.objects.order_by("pk")[0]
for number in range(1, 8):
    Attempt.objects.create(
        delivery=given_up, number=number, started_at=now, duration_ms=7, status=500, failure="status"
    )
Delivery.objects.filter(pk=given_up.pk).update(state="failed", due_at=None, finished_at=now, attempts=7, tries=7)
"""

pytestmark = pytest.mark.no_database


@pytest.fixture
def endpoint_id(stoa: RunningServer) -> Iterator[str]:
    """Yield the id of an endpoint with a pending and a failed delivery."""
    headers = stoa.headers("STORE_OWNER")
    created = httpx2.post(f"{stoa.url}/webhooks", json={"url": f"{PUBLIC}/hook"}, headers=headers, timeout=60).json()
    subprocess.run([sys.executable, "-c", _FILL], cwd=REPOSITORY, env=stoa.environment, check=True, timeout=100)
    yield created["id"]
    httpx2.delete(f"{stoa.url}/webhooks/{created['id']}", headers=headers, timeout=60)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with running_chromium() as browser:
        yield browser


@pytest.fixture
def page(browser: Browser, stoa: RunningServer) -> Iterator[Page]:
    """Yield a browser page where the super admin is signed in."""
    context = browser.new_context(viewport={"width": 1600, "height": 900})
    sign_in(context, f"{stoa.url}/admin/", email="super_admin@example.com", password=PASSWORD)
    page = context.new_page()
    page.set_default_timeout(60_000)
    yield page
    context.close()


def choose(page: Page, action: str, row: str) -> None:
    """Select a row and run an action on it."""
    page.locator("tr", has_text=row).locator("input.action-select").check()
    page.select_option("select[name=action]", action)
    page.locator("button[name=index]").click()


def test_an_operator_reads_and_redelivers_a_failed_delivery(stoa: RunningServer, page: Page, endpoint_id: str):
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.goto(stoa.url + DELIVERIES)
    row = page.locator("tr", has_text="Failed")
    expect(row).to_contain_text("store_owner@example.com")
    expect(row).to_contain_text("500: Unsuccessful status")
    row.locator("a").first.click()
    expect(page.locator("body")).to_contain_text("batch.complete")
    expect(page.locator("tr", has_text="Unsuccessful status")).to_have_count(7)

    page.goto(stoa.url + DELIVERIES)
    choose(page, "redeliver", "Failed")
    expect(page.get_by_text("Queued again: 1.")).to_be_visible()
    expect(page.locator("tr", has_text="Pending")).to_have_count(2)
    assert faults == []


def test_an_operator_disables_an_endpoint_and_cancels_its_deliveries(stoa: RunningServer, page: Page, endpoint_id: str):
    page.goto(stoa.url + ENDPOINTS)
    expect(page.locator("tr", has_text=endpoint_id)).to_contain_text("Enabled")
    choose(page, "disable", endpoint_id)

    expect(page.locator("tr", has_text=endpoint_id)).to_contain_text("Operator")
    endpoint = httpx2.get(f"{stoa.url}/webhooks/{endpoint_id}", headers=stoa.headers("STORE_OWNER"), timeout=60).json()
    assert (endpoint["enabled"], endpoint["disabled_by"]) == (False, "operator")
    page.goto(stoa.url + DELIVERIES)
    expect(page.locator("tr", has_text="Cancelled")).to_have_count(1)
    page.goto(f"{stoa.url}{ENDPOINTS}?q={endpoint_id}")
    choose(page, "enable", endpoint_id)
    expect(page.locator("tr", has_text=endpoint_id)).to_contain_text("Enabled")


def test_admin_pages_are_read_only_and_show_no_secret(stoa: RunningServer, page: Page, endpoint_id: str):
    page.goto(stoa.url + ENDPOINTS)
    page.locator("tr", has_text=endpoint_id).locator("a").first.click()

    expect(page.locator("body")).to_contain_text(f"{PUBLIC}/hook")
    for text in ("whsec_", "gAAAA"):
        assert text not in page.content()
    assert page.locator("input[name=_save]").count() == 0
    assert page.goto(f"{stoa.url}{ENDPOINTS}add/").status == 403  # type: ignore[union-attr]
    assert page.goto(f"{stoa.url}{ENDPOINTS}?secret__startswith=g").status != 200 or "e=1" in page.url  # type: ignore[union-attr]
