"""Row N12: a large batch is written in short transactions, and nobody sees it before the last."""

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection, transaction
from django.utils import timezone

from inference.batches import insertion, services
from inference.batches.dispatch import redispatch
from inference.batches.insertion import delete_abandoned_batches, fit_chunk_count
from inference.batches.models import Batch, BatchRequest
from inference.batches.services import NewRequest, create_batch
from inference.batches.worker import sweeper
from shared.accounts.models import User
from shared.api.errors import ApiError
from tests.inference.batches.conftest import NOW

pytestmark = pytest.mark.django_db(transaction=True)

MINUTE = timedelta(minutes=1)


@pytest.fixture(autouse=True)
def _small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(insertion, "FIRST_CHUNK_COUNT", 10)
    monkeypatch.setattr(insertion, "MAX_CHUNK_COUNT", 10)
    monkeypatch.setattr(insertion, "MIN_CHUNK_COUNT", 10)


def make(user: User, requests: Iterator[NewRequest], **options: Any) -> Batch:
    return create_batch(user=user, kind=Batch.Kind.NATIVE, model_id="m", requests=requests, now=NOW, **options)


def in_other_thread(work: Any) -> Any:
    """Return the result of the work on another connection."""
    results = []

    def run() -> None:
        try:
            results.append(work())
        finally:
            connection.close()

    thread = threading.Thread(target=run)
    thread.start()
    thread.join(60)
    return results[0]


def see_and_write(user: User) -> tuple[int, int, int, int]:
    """Write a row as an order would, and return how many batches readers, lists and workers see, and the rows there."""
    User.objects.filter(pk=user.pk).update(name="written")
    taken: list[int] = []
    redispatch(now=NOW + MINUTE, take=lambda pk: bool(taken.append(pk)))
    sweeper.expire_batches(now=NOW + timedelta(days=3))
    return Batch.objects.count(), Batch.objects.for_user(user).count(), len(taken), BatchRequest.objects.count()


def test_n12_others_write_meanwhile_and_see_nothing_of_a_batch_before_its_last_transaction(user: User):
    seen = []

    def requests() -> Iterator[NewRequest]:
        for number in range(45):
            if number % 10 == 0:
                seen.append(in_other_thread(lambda: see_and_write(user)))
            yield NewRequest(str(number), "{}")

    batch = make(user, requests())
    assert [batches[:3] for batches in seen] == [(0, 0, 0)] * 5
    assert [rows for *_, rows in seen] == [0, 0, 10, 20, 30]  # one chunk is read ahead
    assert Batch.objects.get() == batch
    assert (batch.total, batch.requests.count()) == (45, 45)
    assert list(batch.requests.order_by("index").values_list("custom_id", flat=True)) == [str(n) for n in range(45)]
    stored = Batch.objects.get()
    assert (stored.total, stored.size, stored.status) == (45, batch.size, Batch.Status.PROCESSING)


def test_n12_what_a_kill_leaves_is_deleted_within_a_minute(user: User, monkeypatch: pytest.MonkeyPatch):
    class Killed(BaseException):
        pass

    def requests() -> Iterator[NewRequest]:
        for number in range(45):
            if number == 40:
                raise Killed
            yield NewRequest(str(number), "{}")

    monkeypatch.setattr(services, "delete_in_steps", lambda **options: None)  # a killed process does nothing
    with pytest.raises(Killed):
        make(user, requests())
    assert not Batch.objects.exists()
    assert BatchRequest.objects.count() == 30
    assert delete_abandoned_batches(now=timezone.now()) == 0, "its writer may still be at work"
    assert delete_abandoned_batches(now=timezone.now() + MINUTE) == 1
    assert not Batch.all_objects.exists()
    assert not BatchRequest.objects.exists()


def test_n12_a_writer_that_the_sweeper_has_overtaken_creates_nothing(user: User):
    def requests() -> Iterator[NewRequest]:
        for number in range(45):
            if number == 30:
                assert in_other_thread(lambda: delete_abandoned_batches(now=timezone.now() + MINUTE)) == 1
            yield NewRequest(str(number), "{}")

    with pytest.raises(ApiError) as refused:
        make(user, requests())
    assert refused.value.problem.status == 503
    assert not Batch.all_objects.exists()
    assert not BatchRequest.objects.exists()


@pytest.mark.parametrize("fails_at", ["the tenth request", "the last transaction", "a duplicate"])
def test_n12_a_refused_batch_leaves_nothing(user: User, fails_at: str):
    def requests() -> Iterator[NewRequest]:
        for number in range(45):
            if fails_at == "the tenth request" and number == 40:
                raise ApiError(400, "refused")
            yield NewRequest("0" if fails_at == "a duplicate" and number == 44 else str(number), "{}")

    def refuse(batch: Batch) -> None:
        raise ApiError(400, "refused")

    with pytest.raises(ApiError):
        make(user, requests(), on_created=refuse if fails_at == "the last transaction" else None)
    assert not Batch.all_objects.exists()
    assert not BatchRequest.objects.exists()


def test_n12_what_is_stored_with_a_batch_is_committed_with_it(user: User):
    def rename(batch: Batch) -> None:
        assert not transaction.get_autocommit()
        User.objects.filter(pk=user.pk).update(name=batch.batch_id)

    batch = make(user, iter([NewRequest("a", "{}")]), on_created=rename)
    user.refresh_from_db()
    assert user.name == batch.batch_id


def test_n12_chunks_adapt_to_the_time_that_the_last_one_took(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.undo()
    assert fit_chunk_count(count=800, seconds=0.04) == 400
    assert fit_chunk_count(count=100, seconds=10) == insertion.MIN_CHUNK_COUNT
    assert fit_chunk_count(count=20, seconds=0) == insertion.MAX_CHUNK_COUNT


def test_n4_a_user_has_ten_thousand_batches_at_most(user: User, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(services, "MAX_BATCHES_PER_USER", 2)
    for _ in range(2):
        make(user, iter([NewRequest("a", "{}")]))
    with pytest.raises(ApiError, match="0 are left") as refused:
        make(user, iter([NewRequest("a", "{}")]))
    assert refused.value.problem.status == 413
    assert Batch.all_objects.count() == 2


def test_n4_of_concurrent_batches_no_more_than_the_maximum_are_created(user: User, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(services, "MAX_BATCHES_PER_USER", 3)

    def create(_: int) -> int:
        try:
            make(user, iter([NewRequest("a", "{}")]))
        except ApiError as error:
            return error.problem.status
        finally:
            connection.close()
        return 200

    with ThreadPoolExecutor(50) as threads:
        statuses = Counter(threads.map(create, range(50)))
    assert statuses == {200: 3, 413: 47}
    assert Batch.all_objects.count() == BatchRequest.objects.count() == 3
