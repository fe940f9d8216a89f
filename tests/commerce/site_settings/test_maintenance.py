"""Maintenance mode: the API answers super admins only, for as long as it lasts."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from commerce.site_settings.maintenance import Closure, closure
from commerce.site_settings.models import Site
from shared.accounts.models import User
from shared.accounts.services import create_api_key
from tests.commerce.conftest import ApiClient

pytestmark = pytest.mark.django_db


Change = Callable[..., None]


@pytest.fixture
def change(
    client_of: ApiClient, admin: User, django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks
) -> Iterator[Change]:
    """Change options as a super admin. The maintenance mode is forgotten after the test."""

    def change_options(**options: Any) -> None:
        with django_capture_on_commit_callbacks(execute=True):
            answer = client_of(admin).put("/api/settings", {"options": options}, content_type="application/json")
        assert answer.status_code == 200

    yield change_options
    closure.__init__()  # type: ignore[misc]


def statuses(client: Any, *paths: str) -> list[int]:
    return [client.get(path).status_code for path in paths]


def test_maintenance_refuses_everybody_but_super_admins(
    client_of: ApiClient, change: Change, admin: User, owner: User, customer: User
):
    paths = ("/api/products", "/api/orders", "/api/no-such", "/api/shops")
    change(isUnderMaintenance=True, maintenance={"description": "Back at noon."})

    for user in (None, customer, owner):
        assert statuses(client_of(user), *paths) == [503] * 4
    assert statuses(client_of(admin), *paths) == [200, 200, 404, 200]
    refused = client_of(None).get("/api/products")
    assert (refused.json()["code"], refused.json()["message"]) == ("maintenance", "Back at noon.")
    assert refused.headers["Retry-After"] == "300"

    change(isUnderMaintenance=False)
    assert statuses(client_of(None), *paths[:1]) == [200]


def test_a_write_during_maintenance_has_no_effect(client_of: ApiClient, change: Change, admin: User, customer: User):
    change(isUnderMaintenance=True)
    sent = {"title": "Home", "type": "billing", "address": {"city": "Cork"}, "customer_id": customer.pk}

    refused = client_of(customer).post(
        "/api/addresses", sent, content_type="application/json", headers={"Idempotency-Key": "a"}
    )

    assert refused.status_code == 503
    assert not customer.addresses.exists()


def test_settings_sign_in_and_pages_stay_open(client_of: ApiClient, change: Change, admin: User, customer: User):
    change(isUnderMaintenance=True)

    assert client_of(None).get("/api/settings").json()["options"]["isUnderMaintenance"] is True
    assert statuses(client_of(customer), "/api/me", "/api/settings", "/livez", "/admin/login/") == [200] * 4
    sent = {"email": customer.email, "password": "wrong"}
    assert client_of(None).post("/api/token", sent, content_type="application/json").status_code == 401


def test_maintenance_lasts_from_start_to_until(client_of: ApiClient, change: Change, admin: User):
    now, hour = timezone.now(), timedelta(hours=1)
    lists = []
    for start, until in (
        (now + hour, None),
        (now - hour, now + hour),
        (now - 2 * hour, now - hour),
        (None, now + hour),
    ):
        change(isUnderMaintenance=True, maintenance={"start": start, "until": until})
        lists.append(client_of(None).get("/api/products"))

    assert [listed.status_code for listed in lists] == [200, 503, 200, 503]
    assert 3500 < int(lists[3].headers["Retry-After"]) <= 3600


def test_a_key_with_named_permissions_is_refused_although_its_user_is_a_super_admin(
    client_of: ApiClient, change: Change, admin: User
):
    key = create_api_key(user=admin, name="reader", permissions=["read_metrics"], now=timezone.now())[1]
    change(isUnderMaintenance=True)

    assert client_of(None).get("/api/products", headers={"Authorization": f"Bearer {key}"}).status_code == 503


def test_another_process_knows_within_the_interval(settings: Any, monkeypatch: pytest.MonkeyPatch):
    settings.MAINTENANCE_CHECK_SECONDS = 5.0
    clock = [1000.0]
    monkeypatch.setattr("commerce.site_settings.maintenance.time.monotonic", lambda: clock[0])
    other = Closure()
    assert other.is_outdated()
    other.read()
    Site.objects.create(is_under_maintenance=True, updated_at=timezone.now())

    clock[0] += 4.9
    assert not other.is_outdated()
    clock[0] += 0.2
    assert other.is_outdated()
    other.read()
    assert other.site.is_closed(timezone.now())
