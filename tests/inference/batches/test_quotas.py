"""Limits of batches: queued tokens of a user, and monthly quotas of users and API keys."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from inference.batches.models import Batch
from inference.batches.services import NewRequest, cancel_batch, create_batch, retry_failed
from inference.batches.worker import leases, recording
from inference.batches.worker.recording import RequestOutcome
from inference.batches.worker.sweeper import expire_batches
from inference.engine import Usage
from inference.usage.models import DailyUsage
from inference.usage.quotas import find_used_up_message
from inference.usage.services import record_usage
from shared.accounts.models import ApiKey, User
from shared.accounts.roles import Role
from shared.accounts.services import create_api_key, create_user
from tests.inference.batches.conftest import NOW, MakeBatch

pytestmark = pytest.mark.django_db(transaction=True)


class ApiUser:
    def __init__(self, email: str) -> None:
        now = timezone.now()
        self.user = create_user(email=email, name="A", password=None, role=Role.STAFF, now=now)
        self.key, secret = create_api_key(user=self.user, name="test", now=now)
        self._client = Client(headers={"Authorization": f"Bearer {secret}"})

    def submit(self, *prompts: str, **other: Any) -> Any:
        requests = [{"id": f"r{place}", "prompt": prompt} for place, prompt in enumerate(prompts)]
        body = {"model": "stoa-describer", "requests": requests, "max_tokens": 100} | other
        return self._client.post("/batch", json.dumps(body), content_type="application/json")


@pytest.fixture
def api_user(db: None) -> ApiUser:
    return ApiUser("a@example.com")


def test_a_batch_reserves_prompt_tokens_and_max_tokens(api_user: ApiUser):
    conversation = {"id": "m", "messages": [{"role": "user", "content": "x" * 40}], "max_tokens": 7, "n": 2}
    requests = [{"id": "p", "prompt": "x" * 400}, {"id": "q", "prompt": "x" * 40, "max_tokens": 50}, conversation]
    assert api_user.submit(requests=requests).status_code == 200
    assert Batch.objects.get().reserved_tokens == (100 + 100) + (10 + 50) + (10 + 8 + 2 * 7)


def test_a_full_queue_refuses_batches_until_one_ends(api_user: ApiUser, settings: Settings):
    settings.MAX_QUEUED_BATCH_TOKENS_PER_USER = 450
    assert [api_user.submit("x", "y").status_code for _ in range(2)] == [200, 200]

    refused = api_user.submit("x")
    assert refused.status_code == 429
    assert refused["Retry-After"] == "60"
    assert refused["X-Should-Retry"] == "false"
    error = refused.json()["error"]
    assert (error["code"], error["retry_after"]) == ("RATE_LIMIT_EXCEEDED", 60)
    assert "up to 450 tokens queued. 404 are queued, and this batch may take 101." in error["message"]
    assert Batch.objects.count() == 2
    assert ApiUser("b@example.com").submit("x").status_code == 200

    cancel_batch(batch_pk=Batch.objects.filter(user=api_user.user).earliest("pk").pk, now=timezone.now())
    assert api_user.submit("x").status_code == 200


def test_a_batch_larger_than_the_queue_is_refused(api_user: ApiUser, settings: Settings):
    settings.MAX_QUEUED_BATCH_TOKENS_PER_USER = 450
    refused = api_user.submit(*"abcde")
    assert refused.status_code == 413
    assert "may take 505 tokens, and a user may have 450 queued. Split the batch." in refused.json()["error"]["message"]
    assert not Batch.objects.exists()


def test_a_retry_reserves_its_share_of_the_tokens(user: User):
    requests = [NewRequest(name, "{}") for name in "abcd"]
    batch = create_batch(user=user, kind=Batch.Kind.NATIVE, model_id="m", requests=requests, tokens=400, now=NOW)
    lease_id = leases.acquire_lease(batch_pk=batch.pk, worker="w", now=NOW)
    assert lease_id
    (one,) = leases.claim_requests(lease_id=lease_id, batch_pk=batch.pk, limit=1)
    recording.record_outcomes(
        lease_id=lease_id, batch_pk=batch.pk, outcomes=[RequestOutcome(request=one.pk, answer="{}")], now=NOW
    )
    expire_batches(now=NOW + timedelta(days=2))
    assert retry_failed(batch_pk=batch.pk, now=NOW).reserved_tokens == 300


@pytest.fixture
def key(user: User) -> ApiKey:
    key, _ = create_api_key(user=user, name="k", now=NOW)
    key.monthly_token_limit = 10
    key.save()
    return key


def test_a_batch_counts_against_the_api_key_that_created_it(user: User, key: ApiKey):
    requests = [NewRequest("a", "{}"), NewRequest("b", "{}")]
    batch = create_batch(
        user=user, api_key=key, kind=Batch.Kind.NATIVE, model_id="m", requests=requests, now=timezone.now()
    )
    now = timezone.now()
    lease_id = leases.acquire_lease(batch_pk=batch.pk, worker="w", now=now)
    assert lease_id
    (one,) = leases.claim_requests(lease_id=lease_id, batch_pk=batch.pk, limit=1)
    owner = {"user_id": user.pk, "api_key_id": key.pk}
    assert find_used_up_message(**owner, now=now) == ""

    done = RequestOutcome(request=one.pk, answer="{}", prompt_tokens=4, completion_tokens=6)
    recording.record_outcomes(lease_id=lease_id, batch_pk=batch.pk, outcomes=[done], now=now)

    row = DailyUsage.objects.get()
    assert (row.user, row.api_key, row.prompt_tokens, row.completion_tokens) == (user, key, 4, 6)
    assert "This key has used its quota of 10 tokens per month" in find_used_up_message(**owner, now=now)


def test_a_key_over_its_monthly_quota_creates_no_batch(api_user: ApiUser):
    api_user.key.monthly_token_limit = 10
    api_user.key.save()
    record_usage(
        user_id=api_user.user.pk, api_key_id=api_user.key.pk, model_id="m", usage=Usage(6, 4), now=timezone.now()
    )
    refused = api_user.submit("x")
    assert refused.status_code == 429
    assert "This key has used its quota of" in refused.json()["error"]["message"]
    assert not Batch.objects.exists()


def test_nothing_is_recorded_for_a_deleted_batch(user: User, make_batch: MakeBatch):
    batch = make_batch(1)
    lease_id = leases.acquire_lease(batch_pk=batch.pk, worker="w", now=NOW)
    assert lease_id
    deleted_pk, lease = batch.pk + 1, {"lease_id": lease_id, "now": NOW}
    recording.requeue_crashed(batch_pk=deleted_pk, requests=[1], **lease)
    recording.retry_or_fail(batch_pk=deleted_pk, outcome=RequestOutcome(request=1, error_code="TIMEOUT"), **lease)
    assert recording.record_outcomes(batch_pk=deleted_pk, outcomes=[], **lease) is False
