"""Bodies of POST /batch, and the webhook secret in the response."""

import json
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from inference.batches.models import Batch
from shared.accounts.roles import Role
from shared.accounts.services import create_api_key, create_user
from shared.encryption import decrypt
from shared.webhooks.models import Endpoint

pytestmark = pytest.mark.django_db(transaction=True)
BODY = {
    "model": "stoa-describer",
    "requests": [{"id": "a", "prompt": "x"}],
    "webhook_url": "https://93.184.216.34/hook",
}


@pytest.fixture
def client(db: None) -> Client:
    now = timezone.now()
    user = create_user(email="a@example.com", name="A", password=None, role=Role.STAFF, now=now)
    return Client(headers={"Authorization": f"Bearer {create_api_key(user=user, name='test', now=now)[1]}"})


def submit(client: Client, status: int = 200, key: str = "", **other: Any) -> dict[str, Any]:
    headers = {"Idempotency-Key": key} if key else {}
    answer = client.post("/batch", BODY | other, content_type="application/json", headers=headers)
    assert answer.status_code == status, answer.content
    accepted: dict[str, Any] = answer.json()
    return accepted


def test_only_the_first_webhook_url_returns_the_secret(client: Client):
    first = submit(client, key="one")
    assert first["webhook_secret"] == decrypt(Endpoint.objects.get().secret)

    again = submit(client, key="one")
    assert again == {name: value for name, value in first.items() if name != "webhook_secret"}
    assert "webhook_secret" not in submit(client)
    assert set(Batch.objects.values_list("webhook_url", flat=True)) == {BODY["webhook_url"]}


@pytest.mark.parametrize("key", ["", "one"])
def test_a_refused_batch_creates_no_secret(client: Client, settings: Settings, key: str):
    limit, settings.MAX_BATCH_BYTES_PER_USER = settings.MAX_BATCH_BYTES_PER_USER, 100
    submit(client, 413, key)
    submit(client, 400, key, webhook_url="http://127.0.0.1/")
    assert not Endpoint.objects.exists()

    settings.MAX_BATCH_BYTES_PER_USER = limit
    assert submit(client, key=key)["webhook_secret"].startswith("whsec_")


def test_a_nested_requests_key_before_the_requests_is_kept(client: Client):
    schema = {"enum": [BODY["requests"]]}
    shape = {"type": "json_schema", "json_schema": {"name": "x", "schema": schema}}
    answer = client.post("/batch", {"response_format": shape} | BODY, content_type="application/json")
    assert answer.status_code == 200, answer.content
    assert Batch.objects.get().parameters["response_format"]["json_schema"]["schema"] == schema


@pytest.mark.parametrize("key", ["model", "requests", "max_tokens"])
def test_a_duplicate_key_is_refused(client: Client, key: str):
    body = BODY | {"max_tokens": 2}
    twice = json.dumps(body)[:-1] + f", {json.dumps({key: body[key]})[1:]}"
    answer = client.post("/batch", twice, content_type="application/json")
    assert answer.status_code == 400
    assert f"it has the key '{key}' twice" in answer.json()["error"]["message"]
    assert not Batch.objects.exists()


def test_a_body_with_too_many_keys_is_refused(client: Client):
    body = {f"key {number}": 1 for number in range(100_000)} | BODY
    answer = client.post("/batch", body, content_type="application/json")
    assert answer.status_code == 400
    assert "it has more than 100 keys" in answer.json()["error"]["message"]
