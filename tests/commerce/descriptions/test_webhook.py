"""Row W5, the receiving side: what the model server tells is signed, recent, and does no harm twice."""

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
from commerce.descriptions import job_rounds, webhooks
from commerce.descriptions.jobs import Wishes, create_job
from commerce.descriptions.models import DescriptionDraft, DescriptionJob
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.api.errors import ApiError
from shared.environment import env
from tests.commerce.catalog.goods import make_product
from tests.commerce.descriptions.batch_stub import BatchStub, running_stub

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
    """One that nobody looks at for years."""
    settings.CELERY_BROKER_URL = "memory://"
    product: Product = make_product(shop)
    job = create_job(author=staff, product_ids=[product.pk], wishes=Wishes(), now=timezone.now())
    DescriptionJob.objects.update(state="running", batch_id="batch_0", look_at=LATER)
    return job


def message(batch_id: str = "batch_0", **more: Any) -> bytes:
    data = {"batch_id": batch_id, "status": "completed", "total": 1, "completed": 1, "failed": 0}
    return json.dumps({"type": "batch.complete", "event": "batch.complete", "data": data} | more).encode()


def signed(secret: str, body: bytes, at: datetime | None = None, message_id: str = "msg_1") -> dict[str, str]:
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
    return job.look_at < LATER


def test_w5_a_signed_message_has_its_job_looked_at_now(job: DescriptionJob, secret: str):
    assert send(message(), signed(secret, message())) == 200
    assert is_due(job)


def test_w5_of_a_thousand_tampered_messages_none_counts(job: DescriptionJob, secret: str):
    body, headers = message(), signed(secret, message())
    tampered = 0
    for place in range(0, len(body)):
        changed = body[:place] + bytes([body[place] ^ 1]) + body[place + 1 :]
        tampered += send(changed, headers) == 400
    for name in headers:
        without = {other: value for other, value in headers.items() if other != name}
        assert send(body, without) == 400
        assert send(body, without | {name: headers[name][:-2] + "!" + headers[name][-1]}) == 400
    assert send(body, headers | {"webhook-id": "msg_2"}) == 400
    assert send(body, {}) == 400
    assert tampered == len(body)
    assert not is_due(job)


def test_w5_another_secret_is_refused_and_of_two_signatures_one_is_enough(job: DescriptionJob, secret: str):
    body = message()
    other = signed(new_secret(), body)
    assert send(body, other) == 400
    assert not is_due(job)
    both = signed(secret, body)
    both["webhook-signature"] = f"{other['webhook-signature']} {both['webhook-signature']}"
    assert send(body, both) == 200
    assert is_due(job)


@pytest.mark.parametrize("minutes", [-6, 6, -60 * 24 * 365])
def test_w5_what_is_not_of_these_five_minutes_is_refused(job: DescriptionJob, secret: str, minutes: int):
    assert send(message(), signed(secret, message(), at=timezone.now() + timedelta(minutes=minutes))) == 400
    assert not is_due(job)


def test_w5_the_same_message_again_changes_nothing(
    job: DescriptionJob, secret: str, stub: BatchStub, settings: Settings
):
    settings.DESCRIPTIONS_BASE_URL = f"{stub.url}/v1"
    DescriptionJob.objects.update(state="waiting", batch_id="", look_at=timezone.now())
    job_rounds.look_after(job_id=job.pk, now=timezone.now())
    stub.finish()
    for _ in range(3):
        assert send(message(), signed(secret, message())) == 200
        job_rounds.look_after(job_id=job.pk, now=timezone.now())
    job.refresh_from_db()
    assert (job.state, job.written) == ("completed", 1)
    assert DescriptionDraft.objects.count() == 1
    assert job.items.get().allowance.used == 1


@pytest.fixture
def stub() -> Iterator[BatchStub]:
    with running_stub() as server:
        yield server


@pytest.mark.parametrize(
    "body",
    [message("batch_of_somebody_else"), b"{}", b"[]", b'{"data": []}', b'{"data": {"batch_id": 7}}', message("")],
    ids=str,
)
def test_a_signed_message_about_nothing_of_ours_is_taken_and_changes_nothing(
    job: DescriptionJob, secret: str, body: bytes
):
    assert send(body, signed(secret, body)) == 200
    assert not is_due(job)


def test_without_a_secret_nothing_is_believed(job: DescriptionJob, settings: Settings):
    settings.DESCRIPTIONS_WEBHOOK_SECRET = ""
    assert send(message(), signed(new_secret(), message())) == 400
    assert not is_due(job)


@pytest.mark.parametrize(
    "given", ["whsec_", "whsec_!!!!", "whsec_YQ==", "secret", base64.b64encode(b"k" * 32).decode()], ids=str
)
def test_w5_a_secret_that_could_be_guessed_stops_the_start(given: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("STOA_DESCRIPTIONS_WEBHOOK_SECRET", given)
    with pytest.raises(ImproperlyConfigured, match="STOA_DESCRIPTIONS_WEBHOOK_SECRET is no webhook secret"):
        webhook_secret(env, "STOA_DESCRIPTIONS_WEBHOOK_SECRET")


def test_w5_a_secret_of_the_model_servers_or_none_is_taken(monkeypatch: pytest.MonkeyPatch):
    given = new_secret()
    monkeypatch.setenv("STOA_DESCRIPTIONS_WEBHOOK_SECRET", given)
    assert webhook_secret(env, "STOA_DESCRIPTIONS_WEBHOOK_SECRET") == given
    monkeypatch.delenv("STOA_DESCRIPTIONS_WEBHOOK_SECRET")
    assert webhook_secret(env, "STOA_DESCRIPTIONS_WEBHOOK_SECRET") == ""


def test_w5_what_is_not_signed_costs_the_database_nothing(
    job: DescriptionJob, secret: str, django_assert_num_queries: DjangoAssertNumQueries
):
    with django_assert_num_queries(0), pytest.raises(ApiError):
        webhooks.receive(body=message(), headers=signed(new_secret(), message()), now=timezone.now())


def test_w5_a_thousand_signed_messages_are_all_taken(job: DescriptionJob, secret: str):
    for number in range(1000):
        body = message(number=number)
        assert send(body, signed(secret, body, message_id=f"msg_{number}")) == 200
