"""Tests of /api/webhooks; `routes/route_table.py` has who may call it."""

from typing import Any

import pytest
from django.test import Client

from commerce.shops.models import Shop
from commerce.webhooks.events import ShopEvent
from shared.accounts.models import User
from shared.webhooks.models import Delivery, Endpoint
from shared.webhooks.services import MAX_ENDPOINTS_PER_USER
from tests.commerce.conftest import ApiClient
from tests.commerce.orders.factories import make_goods
from tests.commerce.reviews.factories import review

URL = "https://8.8.8.8/hook"


@pytest.fixture
def client(client_of: ApiClient, owner: User) -> Client:
    return client_of(owner)


def post(client: Client, body: Any, path: str = "") -> Any:
    return client.post(f"/api/webhooks{path}", body, content_type="application/json")


def patch(client: Client, webhook_id: str, body: Any) -> Any:
    return client.patch(f"/api/webhooks/{webhook_id}", body, content_type="application/json")


def test_a_webhook_is_created_read_changed_and_deleted(client: Client):
    answer = post(client, {"url": URL})

    created = answer.json()
    secret = created.pop("secret")
    assert (answer.status_code, created["events"], created["enabled"]) == (201, ShopEvent.values, True)
    assert client.get("/api/webhooks").json() == [created]
    assert client.get(f"/api/webhooks/{created['id']}").json() == created
    assert Endpoint.objects.get().secret != secret, "it is encrypted"

    changed = patch(client, created["id"], {"enabled": False, "events": ["order.created"]}).json()

    assert (changed["disabled_by"], changed["events"], changed["url"]) == ("owner", ["order.created"], URL)
    rotated = post(client, {}, f"/{created['id']}/rotate").json()
    assert rotated["secret"] not in ("", secret)
    assert rotated["previous_secret_until"]
    assert client.delete(f"/api/webhooks/{created['id']}").json() is True
    assert not Endpoint.objects.exists()


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({}, "url"),
        ({"url": None}, "url"),
        ({"url": ["https://8.8.8.8/"]}, "url"),
        ({"url": "https://8.8.8.8/" + "x" * 2048}, "url"),
        ({"url": "ftp://8.8.8.8/"}, "url"),
        ({"url": "http://127.0.0.1/"}, "url"),
        ({"url": "http://169.254.169.254/latest"}, "url"),
        ({"url": "http://[::ffff:10.0.0.1]/"}, "url"),
        ({"url": "https://8.8.8.8:8443/"}, "url"),
        ({"url": URL, "events": []}, "events"),
        ({"url": URL, "events": ["order.deleted"]}, "events.0"),
        ({"url": URL, "events": "order.created"}, "events"),
        ({"url": URL, "events": ["order.created"] * 21}, "events"),
        ({"url": URL, "enabled": "maybe"}, "enabled"),
    ],
)
def test_an_invalid_webhook_is_refused_by_field(client: Client, body: Any, field: str):
    answer = post(client, body)

    assert (answer.status_code, list(answer.json()["errors"])) == (422, [field])
    assert not Endpoint.objects.exists()


def test_a_url_is_registered_once_and_a_user_has_twenty_webhooks(client: Client):
    for number in range(MAX_ENDPOINTS_PER_USER):
        assert post(client, {"url": f"{URL}/{number}"}).status_code == 201
        repeated = post(client, {"url": f"{URL}/0"}) if number == 1 else None
        assert repeated is None or repeated.json()["errors"]["url"]

    answer = post(client, {"url": URL})

    assert (answer.status_code, list(answer.json()["errors"])) == (422, ["url"])
    assert Endpoint.objects.count() == MAX_ENDPOINTS_PER_USER


def test_deliveries_are_listed_read_and_sent_again(client: Client, shop: Shop, customer: User):
    webhook_id = post(client, {"url": URL}).json()["id"]
    written = review(customer, make_goods(shop))
    path = f"/api/webhooks/{webhook_id}/deliveries"

    (listed,) = client.get(path, {"state": "pending"}).json()["data"]
    read = client.get(f"{path}/{listed['id']}").json()

    assert (listed["event"], listed["url"], listed["attempt_count"]) == ("review.created", URL, 0)
    assert (read["body"]["data"]["review_id"], read["attempts"]) == (written.pk, [])
    assert client.get(path, {"state": "failed"}).json()["data"] == []
    assert list(client.get(path, {"state": "lost"}).json()["errors"]) == ["state"]

    patch(client, webhook_id, {"enabled": False})
    again = post(client, {}, f"/{webhook_id}/deliveries/{listed['id']}/redeliver")
    assert again.status_code == 409, "the webhook is disabled"
    patch(client, webhook_id, {"enabled": True})
    again = post(client, {}, f"/{webhook_id}/deliveries/{listed['id']}/redeliver")
    assert (again.status_code, again.json()["state"]) == (200, "pending")
    assert Delivery.objects.count() == 1


def test_what_an_operator_disabled_stays_so(client: Client, owner: User):
    webhook_id = post(client, {"url": URL}).json()["id"]
    Endpoint.objects.update(is_enabled=False, disabled_by=Endpoint.DisabledBy.OPERATOR)

    enabled = patch(client, webhook_id, {"enabled": True})

    assert (enabled.status_code, list(enabled.json()["errors"])) == (422, ["enabled"])
    assert client.delete(f"/api/webhooks/{webhook_id}").status_code == 409
    assert not Endpoint.objects.get().is_enabled
