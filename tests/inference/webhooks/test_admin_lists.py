"""Admin actions on all rows of a list, across pages."""

from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.accounts.services import create_user
from shared.webhooks import admin
from shared.webhooks.models import Delivery, Endpoint

ENDPOINTS, DELIVERIES = (f"/admin/inference_webhooks/{name}/" for name in ("endpoint", "delivery"))
PUBLIC = "https://93.184.216.34"
NOW = timezone.now()
MANY = 10_000
Act = Callable[[str, str], str]


@pytest.fixture
def act(db: None) -> Act:
    """Return a function that runs an action on all rows of a list and returns the next page."""
    root = create_user(email="root@example.com", name="R", password=None, role=Role.SUPER_ADMIN, now=NOW)
    client = Client()
    client.force_login(root)

    def choose(path: str, action: str) -> str:
        form = {"action": action, "select_across": "1", "index": "0", "_selected_action": "1"}
        answer = client.post(path, form, follow=True)
        assert answer.status_code == 200
        return answer.text

    return choose


def make_endpoints(user: User, count: int) -> list[Endpoint]:
    return Endpoint.objects.bulk_create(
        Endpoint(user=user, url=f"{PUBLIC}/{number}", secret="x", created_at=NOW, updated_at=NOW)
        for number in range(count)
    )


def make_deliveries(endpoints: list[Endpoint], count: int, state: str = "failed") -> None:
    """Create deliveries, distributed over the endpoints."""
    times = {"finished_at": NOW} if state == "failed" else {"due_at": NOW}
    Delivery.objects.bulk_create(
        Delivery(
            endpoint=endpoints[number % len(endpoints)],
            event="batch.complete",
            url=endpoints[number % len(endpoints)].url,
            destination="93.184.216.34:443",
            body="{}" * 200,
            state=state,
            tries=7,
            created_at=NOW,
            **times,
        )
        for number in range(count)
    )


def test_many_deliveries_are_redelivered_in_few_queries(user: User, act: Act):
    on, off, *_ = endpoints = make_endpoints(user, 20)
    make_deliveries(endpoints, MANY)
    Endpoint.objects.filter(pk=on.pk).update(url="http://93.184.216.35/new")
    Endpoint.objects.filter(pk=off.pk).update(is_enabled=False, disabled_by="owner")
    Delivery.objects.filter(pk__in=on.deliveries.values("pk")[:3]).update(state="sending", due_at=NOW, finished_at=None)

    with CaptureQueriesContext(connection) as queries:
        page = act(DELIVERIES, "redeliver")

    assert len(queries) < 300
    sent, disabled = MANY - MANY // 20 - 3, MANY // 20
    assert f"Queued again: {sent}." in page
    assert f"enable it first: {disabled}." in page
    assert "Being sent, or deleted: 3." in page
    due = Delivery.objects.filter(state="pending")
    assert due.filter(tries=0, finished_at=None, due_at__gte=NOW).count() == sent
    moved = due.filter(url="http://93.184.216.35/new", destination="93.184.216.35:80")
    assert set(moved) == set(due.filter(endpoint=on))
    assert off.deliveries.filter(state="failed").count() == disabled


def test_many_endpoints_are_disabled_and_enabled_in_few_queries(user: User, act: Act):
    endpoints = make_endpoints(user, MANY)
    make_deliveries(endpoints, MANY, state="pending")

    with CaptureQueriesContext(connection) as queries:
        assert f"Disabled: {MANY}." in act(ENDPOINTS, "disable")
    assert len(queries) < 300
    assert not Endpoint.objects.exclude(is_enabled=False, disabled_by="operator").exists()
    assert set(Delivery.objects.values_list("state", "due_at")) == {("cancelled", None)}

    with CaptureQueriesContext(connection) as queries:
        assert f"Enabled: {MANY}." in act(ENDPOINTS, "enable")
    assert len(queries) < 300
    assert not Endpoint.objects.exclude(is_enabled=True, disabled_by="").exists()


def test_an_action_on_too_many_rows_is_refused(user: User, act: Act, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(admin, "MAX_ACTION_ROWS", 2)
    endpoints = make_endpoints(user, 3)
    make_deliveries(endpoints, 3)

    for path, action in ((DELIVERIES, "redeliver"), (ENDPOINTS, "disable")):
        assert "Select at most 2 rows" in act(path, action)
    assert set(Delivery.objects.values_list("state", flat=True)) == {"failed"}
    assert not Endpoint.objects.filter(is_enabled=False).exists()


def test_failed_deliveries_are_a_problem_on_the_health_page(user: User):
    endpoints = make_endpoints(user, 1)
    make_deliveries(endpoints, 2)
    Delivery.objects.update(finished_at=timezone.now())
    Endpoint.objects.update(is_enabled=False, disabled_by=Endpoint.DisabledBy.RECEIVER)
    root = create_user(email="root@example.com", name="R", password=None, role=Role.SUPER_ADMIN, now=NOW)
    client = Client()
    client.force_login(root)

    page = client.get("/admin/health/").text
    assert "2 deliveries failed within the last 24 hours." in page
    assert "stoa webhooks redeliver sends them again." in page
    assert "1 is off: its receiver is gone." in page
