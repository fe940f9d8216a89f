"""Row W5, receiving side: messages of the model server must be signed and recent, and may be repeated."""

import base64
import json
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.core.exceptions import ImproperlyConfigured
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings
from standardwebhooks import Webhook

from commerce.catalog.models import Product
from commerce.config.settings.webhook_secrets import webhook_secret
from commerce.descriptions.jobs import processing, webhooks
from commerce.descriptions.jobs.services import DescriptionOptions, create_job
from commerce.descriptions.models import DescriptionDraft, DescriptionJob
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.api.errors import ApiError
from shared.environment import env
from tests.commerce.catalog.factories import make_product
from tests.commerce.descriptions.jobs.fake_batch_server import FakeBatchServer, running_fake_server

PATH = "/api/descriptions/webhook"
LATER = datetime(2099, 1, 1, tzinfo=UTC)

pytestmark = pytest.mark.django_db


def new_secret() -> str:
    return f"whsec_{base64.b64encode(secrets.token_bytes(32)).decode()}"


@pytest.fixture
def secret(settings: Settings) -> str:
    settings.DESCRIPTIONS_WEBHOOK_SECRET = new_secret()
    return str(settings.DESCRIPTIONS_WEBHOOK_SECRET)


@pytest.fixture
def job(staff: User, shop: Shop, settings: Settings) -> DescriptionJob:
    """Return a running job that is not due for years."""
    settings.CELERY_BROKER_URL = "memory://"
    product: Product = make_product(shop)
    job = create_job(author=staff, product_ids=[product.pk], options=DescriptionOptions(), now=timezone.now())
    DescriptionJob.objects.update(state="running", batch_id="batch_0", next_check_at=LATER)
    return job


def message(batch_id: str = "batch_0", **more: Any) -> bytes:
    data = {"batch_id": batch_id, "status": "completed", "total": 1, "completed": 1, "failed": 0}
    return json.dumps({"type": "batch.complete", "event": "batch.complete", "data": data} | more).encode()


def signature_headers(
    secret: str, body: bytes, at: datetime | None = None, message_id: str = "msg_1"
) -> dict[str, str]:
    at = at or timezone.now()
    return {
        "webhook-id": message_id,
        "webhook-timestamp": str(int(at.timestamp())),
        "webhook-signature": Webhook(secret).sign(message_id, at, body.decode()),
    }


def send(body: bytes, headers: dict[str, str]) -> int:
    return Client().post(PATH, body, content_type="application/json", headers=headers).status_code


def is_due(job: DescriptionJob) -> bool:
    job.refresh_from_db()
    return job.next_check_at < LATER


def test_w5_signed_message_makes_its_job_due(job: DescriptionJob, secret: str):
    assert send(message(), signature_headers(secret, message())) == 200
    assert is_due(job)


def test_w5_tampered_messages_are_refused(job: DescriptionJob, secret: str):
    body, headers = message(), signature_headers(secret, message())
    tampered = 0
    for position in range(len(body)):
        changed = body[:position] + bytes([body[position] ^ 1]) + body[position + 1 :]
        tampered += send(changed, headers) == 400
    for name in headers:
        without = {other: value for other, value in headers.items() if other != name}
        assert send(body, without) == 400
        assert send(body, without | {name: headers[name][:-2] + "!" + headers[name][-1]}) == 400
    assert send(body, headers | {"webhook-id": "msg_2"}) == 400
    assert send(body, {}) == 400
    assert tampered == len(body)
    assert not is_due(job)


def test_w5_wrong_secret_is_refused_and_one_of_two_signatures_is_enough(job: DescriptionJob, secret: str):
    body = message()
    other = signature_headers(new_secret(), body)
    assert send(body, other) == 400
    assert not is_due(job)
    both = signature_headers(secret, body)
    both["webhook-signature"] = f"{other['webhook-signature']} {both['webhook-signature']}"
    assert send(body, both) == 200
    assert is_due(job)


@pytest.mark.parametrize("minutes", [-6, 6, -60 * 24 * 365])
def test_w5_message_older_or_newer_than_five_minutes_is_refused(job: DescriptionJob, secret: str, minutes: int):
    assert send(message(), signature_headers(secret, message(), at=timezone.now() + timedelta(minutes=minutes))) == 400
    assert not is_due(job)


def test_w5_repeated_message_changes_nothing(
    job: DescriptionJob, secret: str, batch_server: FakeBatchServer, settings: Settings
):
    settings.DESCRIPTIONS_BASE_URL = f"{batch_server.url}/v1"
    DescriptionJob.objects.update(state="waiting", batch_id="", next_check_at=timezone.now())
    processing.process_job(job_id=job.pk, now=timezone.now())
    batch_server.finish()
    for _ in range(3):
        assert send(message(), signature_headers(secret, message())) == 200
        processing.process_job(job_id=job.pk, now=timezone.now())
    job.refresh_from_db()
    assert (job.state, job.written) == ("completed", 1)
    assert DescriptionDraft.objects.count() == 1
    assert job.items.get().quota_usage.used == 1


@pytest.fixture
def batch_server() -> Iterator[FakeBatchServer]:
    with running_fake_server() as server:
        yield server


@pytest.mark.parametrize(
    "body",
    [message("batch_of_another_client"), b"{}", b"[]", b'{"data": []}', b'{"data": {"batch_id": 7}}', message("")],
    ids=str,
)
def test_signed_message_about_an_unknown_batch_is_accepted_and_ignored(job: DescriptionJob, secret: str, body: bytes):
    assert send(body, signature_headers(secret, body)) == 200
    assert not is_due(job)


def test_without_a_secret_every_message_is_refused(job: DescriptionJob, settings: Settings):
    settings.DESCRIPTIONS_WEBHOOK_SECRET = ""
    assert send(message(), signature_headers(new_secret(), message())) == 400
    assert not is_due(job)


@pytest.mark.parametrize(
    "given", ["whsec_", "whsec_!!!!", "whsec_YQ==", "secret", base64.b64encode(b"k" * 32).decode()], ids=str
)
def test_w5_weak_secret_is_refused_at_startup(given: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("STOA_DESCRIPTIONS_WEBHOOK_SECRET", given)
    with pytest.raises(ImproperlyConfigured, match="STOA_DESCRIPTIONS_WEBHOOK_SECRET is not a webhook secret"):
        webhook_secret(env, "STOA_DESCRIPTIONS_WEBHOOK_SECRET")


def test_w5_generated_or_empty_secret_is_accepted(monkeypatch: pytest.MonkeyPatch):
    given = new_secret()
    monkeypatch.setenv("STOA_DESCRIPTIONS_WEBHOOK_SECRET", given)
    assert webhook_secret(env, "STOA_DESCRIPTIONS_WEBHOOK_SECRET") == given
    monkeypatch.delenv("STOA_DESCRIPTIONS_WEBHOOK_SECRET")
    assert webhook_secret(env, "STOA_DESCRIPTIONS_WEBHOOK_SECRET") == ""


def test_w5_unsigned_message_makes_no_query(
    job: DescriptionJob, secret: str, django_assert_num_queries: DjangoAssertNumQueries
):
    with django_assert_num_queries(0), pytest.raises(ApiError):
        webhooks.receive(body=message(), headers=signature_headers(new_secret(), message()), now=timezone.now())


@pytest.mark.no_database
def test_w5_a_thousand_signed_messages_are_accepted(job: DescriptionJob, secret: str):
    for number in range(1000):
        body = message(number=number)
        assert send(body, signature_headers(secret, body, message_id=f"msg_{number}")) == 200
