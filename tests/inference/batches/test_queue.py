"""How many tokens a user's batches may have waiting, and whose months they count for."""

import json
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from inference.batches import leases, outcomes
from inference.batches.models import Batch
from inference.batches.outcomes import Outcome
from inference.batches.services import NewRequest, cancel_batch, create_batch, expire_batches, retry_failed
from inference.engine import Usage
from inference.usage.models import DailyUsage
from inference.usage.quotas import words_if_used_up
from inference.usage.services import record_usage
from shared.accounts.models import ApiKey, User
from shared.accounts.roles import Role
from shared.accounts.services import create_api_key, create_user
from tests.inference.batches.conftest import NOW, MakeBatch

pytestmark = pytest.mark.django_db(transaction=True)


class Asker:
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
def asker(db: None) -> Asker:
    return Asker("a@example.com")


def test_what_a_batch_may_take_is_its_prompts_and_what_each_may_write(asker: Asker):
    conversation = {"id": "m", "messages": [{"role": "user", "content": "x" * 40}], "max_tokens": 7, "n": 2}
    requests = [{"id": "p", "prompt": "x" * 400}, {"id": "q", "prompt": "x" * 40, "max_tokens": 50}, conversation]
    assert asker.submit(requests=requests).status_code == 200
    assert Batch.objects.get().reserved_tokens == (100 + 100) + (10 + 50) + (10 + 8 + 2 * 7)


def test_a_full_queue_refuses_until_a_batch_has_ended(asker: Asker, settings: Settings):
    settings.BATCH_QUEUED_TOKENS_PER_USER = 450
    assert [asker.submit("x", "y").status_code for _ in range(2)] == [200, 200]

    refused = asker.submit("x")
    assert refused.status_code == 429
    assert refused["Retry-After"] == "60"
    assert refused["X-Should-Retry"] == "false"
    error = refused.json()["error"]
    assert (error["code"], error["retry_after"]) == ("RATE_LIMIT_EXCEEDED", 60)
    assert "404 tokens of your batches are queued, 450 may be, and this one may take 101" in error["message"]
    assert Batch.objects.count() == 2
    assert Asker("b@example.com").submit("x").status_code == 200

    cancel_batch(batch_pk=Batch.objects.filter(user=asker.user).earliest("pk").pk, now=timezone.now())
    assert asker.submit("x").status_code == 200


def test_a_batch_that_no_queue_could_hold_is_too_large(asker: Asker, settings: Settings):
    settings.BATCH_QUEUED_TOKENS_PER_USER = 450
    refused = asker.submit(*"abcde")
    assert refused.status_code == 413
    assert "may take 505 tokens, and 450 of one user may be queued: split it" in refused.json()["error"]["message"]
    assert not Batch.objects.exists()


def test_what_is_tried_again_queues_its_share(user: User):
    requests = [NewRequest(name, "{}") for name in "abcd"]
    batch = create_batch(user=user, kind=Batch.Kind.NATIVE, model_id="m", requests=requests, tokens=400, now=NOW)
    lease_id = leases.open_lease(batch_pk=batch.pk, worker="w", now=NOW)
    assert lease_id
    (one,) = leases.claim(lease_id=lease_id, batch_pk=batch.pk, most=1)
    outcomes.store(lease_id=lease_id, batch_pk=batch.pk, outcomes=[Outcome(request=one.pk, answer="{}")], now=NOW)
    expire_batches(now=NOW + timedelta(days=2))
    assert retry_failed(batch_pk=batch.pk, now=NOW).reserved_tokens == 300


@pytest.fixture
def key(user: User) -> ApiKey:
    key, _ = create_api_key(user=user, name="k", now=NOW)
    key.monthly_token_limit = 10
    key.save()
    return key


def test_a_batch_counts_for_the_key_that_it_was_made_with(user: User, key: ApiKey):
    requests = [NewRequest("a", "{}"), NewRequest("b", "{}")]
    batch = create_batch(
        user=user, api_key=key, kind=Batch.Kind.NATIVE, model_id="m", requests=requests, now=timezone.now()
    )
    now = timezone.now()
    lease_id = leases.open_lease(batch_pk=batch.pk, worker="w", now=now)
    assert lease_id
    (one,) = leases.claim(lease_id=lease_id, batch_pk=batch.pk, most=1)
    whose = {"user_id": user.pk, "api_key_id": key.pk}
    assert words_if_used_up(**whose, now=now) == ""

    done = Outcome(request=one.pk, answer="{}", prompt_tokens=4, completion_tokens=6)
    outcomes.store(lease_id=lease_id, batch_pk=batch.pk, outcomes=[done], now=now)

    row = DailyUsage.objects.get()
    assert (row.user, row.api_key, row.prompt_tokens, row.completion_tokens) == (user, key, 4, 6)
    assert "The 10 tokens a month of this key are used up" in words_if_used_up(**whose, now=now)


def test_a_key_whose_month_is_used_up_makes_no_batch(asker: Asker):
    asker.key.monthly_token_limit = 10
    asker.key.save()
    record_usage(user_id=asker.user.pk, api_key_id=asker.key.pk, model_id="m", usage=Usage(6, 4), now=timezone.now())
    refused = asker.submit("x")
    assert refused.status_code == 429
    assert "tokens a month of this key are used up" in refused.json()["error"]["message"]
    assert not Batch.objects.exists()


def test_of_a_batch_that_was_erased_meanwhile_nothing_is_written(user: User, make_batch: MakeBatch):
    batch = make_batch(1)
    lease_id = leases.open_lease(batch_pk=batch.pk, worker="w", now=NOW)
    assert lease_id
    gone, mine = batch.pk + 1, {"lease_id": lease_id, "now": NOW}
    outcomes.give_up(batch_pk=gone, requests=[1], **mine)
    outcomes.try_again(batch_pk=gone, outcome=Outcome(request=1, error_code="TIMEOUT"), **mine)
    assert outcomes.store(batch_pk=gone, outcomes=[], **mine) is False
