"""The queue of record: what is accepted, claimed, written and counted, and what the database itself refuses."""

import uuid
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db import IntegrityError, transaction
from pytest_django import Settings

from inference.batches import leases, outcomes, services
from inference.batches.models import Batch, BatchRequest, BatchResult, Lease
from inference.batches.outcomes import Outcome
from inference.batches.services import NewRequest, create_batch
from shared.accounts.models import User
from shared.api.errors import ApiError
from tests.inference.batches.conftest import NOW, MakeBatch

pytestmark = pytest.mark.django_db


def open_lease(batch: Batch, worker: str = "w") -> uuid.UUID:
    lease_id = leases.open_lease(batch_pk=batch.pk, worker=worker, now=NOW)
    assert lease_id is not None
    return lease_id


def claim(batch: Batch, lease_id: uuid.UUID, most: int = 10) -> list[int]:
    return [claimed.pk for claimed in leases.claim(lease_id=lease_id, batch_pk=batch.pk, most=most)]


def claim_lonely(batch: Batch, lease_id: uuid.UUID) -> list[int]:
    claimed = leases.claim_lonely(lease_id=lease_id, batch_pk=batch.pk, model_id=batch.model_id)
    return [one.pk for one in claimed]


def store(batch: Batch, lease_id: uuid.UUID, *requests: int, error_code: str = "") -> bool:
    ends = [Outcome(request=pk, answer="" if error_code else "{}", error_code=error_code) for pk in requests]
    return outcomes.store(lease_id=lease_id, batch_pk=batch.pk, outcomes=ends, now=NOW)


def statuses(batch: Batch) -> list[str]:
    return list(BatchRequest.objects.filter(batch=batch).order_by("index").values_list("status", flat=True))


def counts(batch: Batch) -> tuple[str, int, int, int]:
    batch.refresh_from_db()
    return batch.status, batch.completed, batch.failed, batch.total


def test_a_batch_is_accepted_whole_or_not_at_all(user: User):
    def broken():
        yield NewRequest("a", "{}")
        raise ApiError(400, "The second line is wrong.")

    with pytest.raises(ApiError, match="second line"):
        create_batch(user=user, kind=Batch.Kind.CHAT, model_id="m", requests=broken(), now=NOW)

    assert not Batch.objects.exists()
    assert not BatchRequest.objects.exists()


def test_the_batches_of_a_user_have_so_much_room_together(user: User, settings):
    settings.BATCHES_BYTES_PER_USER = 4 * (services.ROW_BYTES + 2)

    def make(count: int) -> Batch:
        requests = [NewRequest(str(number), "{}") for number in range(count)]
        return create_batch(user=user, kind=Batch.Kind.NATIVE, model_id="m", requests=requests, now=NOW)

    first = make(3)
    assert first.size == 3 * (services.ROW_BYTES + 2)
    with pytest.raises(ApiError) as refused:
        make(2)
    assert refused.value.problem.status == 413
    assert Batch.objects.get() == first
    assert BatchRequest.objects.count() == 3

    make(1)
    with pytest.raises(ApiError):
        create_batch(user=user, kind=Batch.Kind.NATIVE, model_id="m", requests=unread(), now=NOW)
    services.cancel_batch(batch_pk=first.pk, now=NOW)
    services.forget_batches(now=NOW + timedelta(days=8))
    assert make(3).total == 3


def unread() -> Iterator[NewRequest]:
    raise AssertionError("nothing is written for who has no room at all")
    yield


@pytest.mark.parametrize("ids", [[], ["a", "b", "a"], ["a", "b", "c", "d"]])
def test_a_batch_has_requests_each_with_an_id_of_its_own_and_not_too_many(user: User, settings, ids: list[str]):
    settings.BATCH_MOST_REQUESTS = 3
    requests = [NewRequest(custom_id, "{}") for custom_id in ids]

    with pytest.raises(ApiError) as refused:
        create_batch(user=user, kind=Batch.Kind.NATIVE, model_id="m", requests=requests, now=NOW)

    assert refused.value.problem.status == 400
    assert not Batch.objects.exists()


def test_requests_are_claimed_in_order_and_once(make_batch: MakeBatch):
    batch = make_batch(5)
    mine, others = open_lease(batch, "one"), open_lease(batch, "two")

    first, second, third = claim(batch, mine, 2), claim(batch, others, 2), claim(batch, mine, 2)

    assert first + second + third == list(BatchRequest.objects.order_by("index").values_list("pk", flat=True))
    assert claim(batch, others) == []


def test_a_worker_works_on_a_batch_once_at_a_time_until_it_hands_over(make_batch: MakeBatch):
    batch = make_batch()
    lease_id = open_lease(batch, "one")

    assert leases.open_lease(batch_pk=batch.pk, worker="one", now=NOW) is None
    assert leases.renew(lease_id=lease_id, now=NOW, closes=True)
    assert leases.open_lease(batch_pk=batch.pk, worker="one", now=NOW) is not None


def test_the_last_result_ends_the_batch(make_batch: MakeBatch):
    batch = make_batch(3)
    lease_id = open_lease(batch)
    first, second, third = claim(batch, lease_id)

    assert store(batch, lease_id, first)
    assert store(batch, lease_id, second, error_code="CONTEXT_LENGTH_EXCEEDED")
    assert counts(batch) == ("processing", 1, 1, 3)
    assert not store(batch, lease_id, third)

    assert counts(batch) == ("completed", 2, 1, 3)
    assert batch.ended_at == NOW
    assert statuses(batch) == ["completed", "failed", "completed"]


def test_a_batch_of_which_nothing_could_be_done_has_failed(make_batch: MakeBatch):
    batch = make_batch(2)
    lease_id = open_lease(batch)

    store(batch, lease_id, *claim(batch, lease_id), error_code="INVALID_REQUEST")

    assert counts(batch) == ("failed", 0, 2, 2)


def test_what_a_lease_no_longer_holds_is_not_written(make_batch: MakeBatch):
    batch = make_batch(2)
    late = open_lease(batch, "late")
    first, second = claim(batch, late)
    outcomes.reclaim(now=NOW + timedelta(minutes=1))
    lease_id = open_lease(batch, "next")
    assert claim_lonely(batch, lease_id) == [first]

    assert not store(batch, late, first, second)
    store(batch, lease_id, first, second)

    assert counts(batch) == ("processing", 1, 0, 2)
    assert list(BatchResult.objects.values_list("pk", flat=True)) == [first]


def test_results_are_written_once_and_counts_stay_within_the_total(make_batch: MakeBatch):
    batch = make_batch(2)
    lease_id = open_lease(batch)
    first, _ = claim(batch, lease_id)
    store(batch, lease_id, first)

    again = BatchResult(request_id=first, answer="{}", processing_time_ms=0, created_at=NOW)
    with pytest.raises(IntegrityError), transaction.atomic():
        again.save(force_insert=True)
    with pytest.raises(IntegrityError), transaction.atomic():
        Batch.objects.update(failed=2)
    with pytest.raises(IntegrityError), transaction.atomic():
        Batch.objects.update(status="completed", ended_at=NOW)
    with pytest.raises(IntegrityError), transaction.atomic():
        BatchRequest.objects.filter(pk=first).update(status="running")


def test_what_another_server_says_with_a_nul_in_it_ends_its_request(make_batch: MakeBatch):
    batch = make_batch(1)
    lease_id = open_lease(batch)
    [request] = claim(batch, lease_id)
    said = Outcome(request=request, error_code="INVALID_REQUEST", error_message="It says: \x00.")

    assert not outcomes.store(lease_id=lease_id, batch_pk=batch.pk, outcomes=[said], now=NOW)

    assert counts(batch) == ("failed", 0, 1, 1)
    assert BatchResult.objects.get().error_message == "It says: \ufffd."


def test_what_was_running_in_a_crash_runs_again_alone_after_the_rest(make_batch: MakeBatch):
    batch = make_batch(3)
    claim(batch, open_lease(batch, "dead"), 2)
    assert outcomes.reclaim(now=NOW + timedelta(seconds=31)) == 1

    lease_id = open_lease(batch)
    first, second, third = BatchRequest.objects.order_by("index").values_list("pk", flat=True)
    assert claim(batch, lease_id) == [third]
    assert claim_lonely(batch, lease_id) == [first]
    assert claim_lonely(batch, open_lease(batch, "another")) == []
    assert claim_lonely(batch, lease_id) == [second]


def test_b2_a_request_that_crashes_alone_is_failed_at_its_third_start(make_batch: MakeBatch):
    batch = make_batch(2)
    poison, innocent = claim(batch, open_lease(batch))
    outcomes.reclaim(now=NOW + timedelta(minutes=1))
    starts = 1
    while BatchRequest.objects.get(pk=poison).status == "pending":
        lease_id = open_lease(batch)
        assert claim_lonely(batch, lease_id) == [poison]
        outcomes.give_up(lease_id=lease_id, batch_pk=batch.pk, requests=[poison], now=NOW)
        leases.close_lease(lease_id=lease_id, batch_pk=batch.pk)
        starts += 1

    assert starts == 3
    assert BatchResult.objects.get().error_code == "INFERENCE_FAILED"
    lease_id = open_lease(batch)
    assert claim_lonely(batch, lease_id) == [innocent]
    store(batch, lease_id, innocent)
    assert counts(batch) == ("completed", 1, 1, 2)


def test_what_is_handed_back_has_used_up_no_attempt(make_batch: MakeBatch):
    batch = make_batch(2)
    lease_id = open_lease(batch)
    first, _ = claim(batch, lease_id)
    leases.hand_back(lease_id=lease_id, batch_pk=batch.pk, requests=[first])
    leases.close_lease(lease_id=lease_id, batch_pk=batch.pk)

    assert set(BatchRequest.objects.values_list("status", "attempts", "is_lonely")) == {("pending", 0, False)}
    assert not Lease.objects.exists()


def test_what_is_late_is_tried_three_times(make_batch: MakeBatch):
    batch = make_batch(1)
    lease_id = open_lease(batch)
    for _ in range(3):
        (late,) = claim(batch, lease_id)
        outcome = Outcome(request=late, error_code="TIMEOUT", error_message="Too late.")
        outcomes.try_again(lease_id=lease_id, batch_pk=batch.pk, outcome=outcome, now=NOW)

    assert counts(batch) == ("failed", 0, 1, 1)
    assert BatchResult.objects.get().error_code == "TIMEOUT"


def test_a_cancelled_batch_keeps_what_is_done_and_drops_what_is_running(make_batch: MakeBatch):
    batch = make_batch(3)
    lease_id = open_lease(batch)
    first, second = claim(batch, lease_id, 2)
    store(batch, lease_id, first)
    services.cancel_batch(batch_pk=batch.pk, now=NOW)

    assert not store(batch, lease_id, second)
    assert claim(batch, lease_id) == []
    assert not leases.renew(lease_id=lease_id, now=NOW)
    assert counts(batch) == ("cancelled", 1, 0, 3)
    assert statuses(batch) == ["completed", "cancelled", "cancelled"]


def test_a_batch_that_has_ended_is_not_cancelled(make_batch: MakeBatch):
    batch = make_batch(1)
    lease_id = open_lease(batch)
    store(batch, lease_id, *claim(batch, lease_id))

    services.cancel_batch(batch_pk=batch.pk, now=NOW)

    assert counts(batch) == ("completed", 1, 0, 1)


def test_after_a_day_what_is_not_done_has_failed(make_batch: MakeBatch):
    batch = make_batch(3)
    lease_id = open_lease(batch)
    first, _ = claim(batch, lease_id, 2)
    store(batch, lease_id, first)

    assert services.expire_batches(now=NOW + timedelta(hours=23)) == 0
    assert services.expire_batches(now=NOW + timedelta(hours=24)) == 1

    assert counts(batch) == ("expired", 1, 2, 3)
    assert set(BatchResult.objects.exclude(error_code="").values_list("error_code", flat=True)) == {"TIMEOUT"}


def test_what_ended_long_ago_is_forgotten_with_all_that_belongs_to_it(make_batch: MakeBatch):
    old, young = make_batch(2), make_batch(2)
    lease_id = open_lease(old)
    store(old, lease_id, *claim(old, lease_id))
    services.cancel_batch(batch_pk=young.pk, now=NOW + timedelta(days=1))

    assert services.forget_batches(now=NOW + timedelta(days=7)) == 1

    assert list(Batch.objects.all()) == [young]
    assert set(BatchRequest.objects.values_list("batch", flat=True)) == {young.pk}
    assert not BatchResult.objects.exists()


def test_failed_requests_are_tried_again_as_a_batch_of_their_own(make_batch: MakeBatch):
    batch = make_batch(3)
    lease_id = open_lease(batch)
    first, second, third = claim(batch, lease_id)
    store(batch, lease_id, first, third, error_code="TIMEOUT")
    store(batch, lease_id, second)

    again = services.retry_failed(batch_pk=batch.pk, now=NOW)

    assert list(BatchRequest.objects.filter(batch=again).values_list("index", "custom_id")) == [(0, "r0"), (1, "r2")]
    assert counts(batch) == ("completed", 1, 2, 3)


def test_the_batches_of_a_user_who_is_deactivated_are_cancelled(make_batch: MakeBatch, user: User):
    batch, other = make_batch(3), make_batch(1)
    lease = open_lease(batch)
    first, *_ = claim(batch, lease, most=2)
    assert store(batch, lease, first)
    store(other, other_lease := open_lease(other), *claim(other, other_lease))
    assert services.cancel_batches_of_the_inactive(now=NOW) == 0

    user.is_active = False
    user.save()
    assert services.cancel_batches_of_the_inactive(now=NOW) == 1

    assert counts(batch) == ("cancelled", 1, 0, 3)
    assert statuses(batch) == ["completed", "cancelled", "cancelled"]
    assert counts(other) == ("completed", 1, 0, 1)
    assert not leases.renew(lease_id=lease, now=NOW)


def test_results_count_as_room_and_a_batch_that_outgrows_it_ends(make_batch: MakeBatch, settings: Settings):
    batch, idle = make_batch(3), make_batch(1)
    settings.BATCHES_BYTES_PER_USER = batch.size + idle.size + 9
    lease = open_lease(batch)
    first, second, _ = claim(batch, lease)
    answers = [Outcome(request=pk, answer='{"\u00e4": 1}') for pk in (first, second)]  # nine bytes
    outcomes.store(lease_id=lease, batch_pk=batch.pk, outcomes=answers[:1], now=NOW)
    assert services.end_overfull_batches(now=NOW) == 0

    outcomes.store(lease_id=lease, batch_pk=batch.pk, outcomes=answers[1:], now=NOW)
    assert services.end_overfull_batches(now=NOW) == 2

    assert counts(batch) == ("completed", 2, 1, 3)
    assert counts(idle) == ("failed", 0, 1, 1)
    [failed] = BatchResult.objects.filter(request__batch=batch, answer="")
    assert failed.error_code == "INVALID_REQUEST"
    assert f"may take {settings.BATCHES_BYTES_PER_USER} bytes together" in failed.error_message
    assert services.end_overfull_batches(now=NOW) == 0


def test_what_is_done_is_written_and_more_claimed_at_once_while_the_lease_holds(make_batch: MakeBatch):
    batch = make_batch(3)
    lease = open_lease(batch)

    def exchange(*done: int) -> list[int] | None:
        ends = [Outcome(request=pk, answer="{}") for pk in done]
        more = outcomes.store_and_claim(lease_id=lease, batch_pk=batch.pk, outcomes=ends, most=2, now=NOW)
        return None if more is None else [claimed.pk for claimed in more]

    first, second = exchange() or []
    [third] = exchange(first) or []
    assert counts(batch) == ("processing", 1, 0, 3)
    assert statuses(batch) == ["completed", "running", "running"]
    assert exchange(second) == []
    assert exchange(third) is None
    assert counts(batch) == ("completed", 3, 0, 3)


def test_who_has_lost_the_lease_neither_writes_nor_claims(make_batch: MakeBatch):
    batch = make_batch(2)
    lease = open_lease(batch)
    [first] = claim(batch, lease, most=1)
    outcomes.reclaim(now=NOW + leases.LASTS)

    ends = [Outcome(request=first, answer="{}")]
    assert outcomes.store_and_claim(lease_id=lease, batch_pk=batch.pk, outcomes=ends, most=2, now=NOW) is None

    assert statuses(batch) == ["pending", "pending"]
    assert not BatchResult.objects.exists()
