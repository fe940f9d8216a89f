"""Services of batches: creation, limits, cancellation and retry."""

from collections.abc import Iterator
from datetime import timedelta

import pytest

from inference.batches import services
from inference.batches.insertion import REQUEST_OVERHEAD_BYTES
from inference.batches.models import Batch, BatchRequest
from inference.batches.services import NewRequest, create_batch
from inference.batches.worker import leases, sweeper
from shared.accounts.models import User
from shared.accounts.services import create_api_key
from shared.api.errors import ApiError
from tests.inference.batches.conftest import NOW, MakeBatch
from tests.inference.batches.lease_helpers import acquire, claim, counts, record, statuses

pytestmark = pytest.mark.django_db


def test_a_batch_is_created_with_all_requests_or_not_at_all(user: User):
    def broken():
        yield NewRequest("a", "{}")
        raise ApiError(400, "The second line is wrong.")

    with pytest.raises(ApiError, match="second line"):
        create_batch(user=user, kind=Batch.Kind.CHAT, model_id="m", requests=broken(), now=NOW)

    assert not Batch.objects.exists()
    assert not BatchRequest.objects.exists()


def test_batches_of_one_user_share_a_storage_limit(user: User, settings):
    settings.MAX_BATCH_BYTES_PER_USER = 4 * (REQUEST_OVERHEAD_BYTES + 2)

    def make(count: int) -> Batch:
        requests = [NewRequest(str(number), "{}") for number in range(count)]
        return create_batch(user=user, kind=Batch.Kind.NATIVE, model_id="m", requests=requests, now=NOW)

    first = make(3)
    assert first.size == 3 * (REQUEST_OVERHEAD_BYTES + 2)
    with pytest.raises(ApiError) as refused:
        make(2)
    assert refused.value.problem.status == 413
    assert Batch.objects.get() == first
    assert BatchRequest.objects.count() == 3

    make(1)
    with pytest.raises(ApiError):
        create_batch(user=user, kind=Batch.Kind.NATIVE, model_id="m", requests=unread(), now=NOW)
    services.cancel_batch(batch_pk=first.pk, now=NOW)
    sweeper.delete_old_batches(now=NOW + timedelta(days=8))
    assert make(3).total == 3


def unread() -> Iterator[NewRequest]:
    raise AssertionError("nothing is written for who has no room at all")
    yield


@pytest.mark.parametrize("ids", [[], ["a", "b", "a"], ["a", "b", "c", "d"]])
def test_an_empty_duplicate_or_oversized_batch_is_refused(user: User, settings, ids: list[str]):
    settings.MAX_BATCH_REQUESTS = 3
    requests = [NewRequest(custom_id, "{}") for custom_id in ids]

    with pytest.raises(ApiError) as refused:
        create_batch(user=user, kind=Batch.Kind.NATIVE, model_id="m", requests=requests, now=NOW)

    assert refused.value.problem.status == 400
    assert not Batch.objects.exists()


def test_cancelling_keeps_finished_results_and_drops_running_requests(make_batch: MakeBatch):
    batch = make_batch(3)
    lease_id = acquire(batch)
    first, second = claim(batch, lease_id, 2)
    record(batch, lease_id, first)
    services.cancel_batch(batch_pk=batch.pk, now=NOW)

    assert not record(batch, lease_id, second)
    assert claim(batch, lease_id) == []
    assert not leases.renew_lease(lease_id=lease_id, now=NOW)
    assert counts(batch) == ("cancelled", 1, 0, 3)
    assert statuses(batch) == ["completed", "cancelled", "cancelled"]


def test_an_ended_batch_is_not_cancelled(make_batch: MakeBatch):
    batch = make_batch(1)
    lease_id = acquire(batch)
    record(batch, lease_id, *claim(batch, lease_id))

    services.cancel_batch(batch_pk=batch.pk, now=NOW)

    assert counts(batch) == ("completed", 1, 0, 1)


def test_failed_requests_are_retried_as_a_new_batch(make_batch: MakeBatch):
    batch = make_batch(3)
    lease_id = acquire(batch)
    first, second, third = claim(batch, lease_id)
    record(batch, lease_id, first, third, error_code="TIMEOUT")
    record(batch, lease_id, second)

    again = services.retry_failed(batch_pk=batch.pk, now=NOW)

    assert list(BatchRequest.objects.filter(batch=again).values_list("index", "custom_id")) == [(0, "r0"), (1, "r2")]
    assert counts(batch) == ("completed", 1, 2, 3)


# The retry is new: it has its own id, state, counts and times, and only the user's endpoints hear of its end.
NOT_RETRIED_FIELDS = {
    "id", "batch_id", "status", "size", "reserved_tokens", "total", "completed", "failed", "prompt_tokens",
    "completion_tokens", "webhook_url", "created_at", "expires_at", "ended_at", "sent_at", "resume_at", "backoff_count",
    "accept_before",
}  # fmt: skip


def test_a_retry_copies_every_other_field_of_the_batch(make_batch: MakeBatch, user: User):
    batch = make_batch(1)
    key, _secret = create_api_key(user=user, name="test", now=NOW)
    others = {"api_key": key, "kind": Batch.Kind.CHAT, "model_id": "other", "parameters": {"temperature": 0.5}}
    Batch.objects.filter(pk=batch.pk).update(**others)
    lease_id = acquire(batch)
    record(batch, lease_id, *claim(batch, lease_id), error_code="TIMEOUT")

    again = services.retry_failed(batch_pk=batch.pk, now=NOW)

    batch.refresh_from_db()
    assert {field.name for field in Batch._meta.concrete_fields} - NOT_RETRIED_FIELDS == {*others, "user"}
    assert {name: getattr(again, name) for name in (*others, "user")} == {**others, "user": batch.user}
