"""A model server that does not answer holds no worker for long, however many jobs wait for it."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from pytest_django import Settings

from commerce.catalog.models import Product
from commerce.descriptions import batch_server, job_rounds
from commerce.descriptions.jobs import Wishes, cancel_job, create_job
from commerce.descriptions.models import Allowance, DescriptionJob, ServerSilence
from commerce.descriptions.server_rest import ASKED_WITHIN
from commerce.shops.models import Shop
from shared.accounts.models import User
from tests.commerce.catalog.goods import make_product
from tests.commerce.descriptions.batch_stub import BatchStub, running_stub

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)

pytestmark = pytest.mark.django_db


@pytest.fixture
def stub(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[BatchStub]:
    """One that takes what it is sent, and says nothing."""
    monkeypatch.setattr(batch_server, "CALL_S", 0.2)
    with running_stub() as server:
        settings.DESCRIPTIONS_BASE_URL = f"{server.url}/v1"
        settings.CELERY_BROKER_URL = "memory://"  # nobody looks after a job but the test
        server.silent.set()
        yield server


@pytest.fixture
def product(shop: Shop) -> Product:
    return make_product(shop)


def begin(author: User, product: Product, count: int) -> list[DescriptionJob]:
    return [create_job(author=author, product_ids=[product.pk], wishes=Wishes(), now=NOON) for _ in range(count)]


def look(jobs: list[DescriptionJob], at: datetime) -> None:
    for job in jobs:
        job_rounds.look_after(job_id=job.pk, now=at)
        job.refresh_from_db()


def waits(job: DescriptionJob, since: datetime) -> int:
    """Whole seconds."""
    return round((job.look_at - since).total_seconds())


def test_after_three_calls_without_an_answer_nobody_asks(staff: User, product: Product, stub: BatchStub):
    jobs = begin(staff, product, 8)
    look(jobs, NOON)

    assert len(stub.asked) == 3
    assert [waits(job, NOON) for job in jobs] == [3, 3, 3, 10, 10, 10, 10, 10]
    assert {job.state for job in jobs} == {"waiting"}


def test_when_the_rest_is_over_one_asks_for_all_and_the_next_rest_is_longer(
    staff: User, product: Product, stub: BatchStub
):
    jobs = begin(staff, product, 6)
    look(jobs, NOON)
    at, rests = NOON, []
    for _ in range(6):
        at = max(job.look_at for job in jobs)
        asked = len(stub.asked)
        DescriptionJob.objects.update(look_at=at)
        look(jobs, at)
        assert len(stub.asked) == asked + 1
        rests.append(waits(jobs[-1], at))
    assert rests == [20, 40, 80, 120, 120, 120]


def test_while_one_asks_the_others_look_again_soon_and_who_died_asking_is_followed_by_another(
    staff: User, product: Product, stub: BatchStub
):
    first, second, third = begin(staff, product, 3)
    ServerSilence.objects.create(times=3, rests_until=NOON, asked_until=NOON + ASKED_WITHIN)
    look([first], NOON)
    assert (waits(first, NOON), stub.asked) == (3, [])

    look([second, third], NOON + ASKED_WITHIN)
    assert len(stub.asked) == 1


@pytest.mark.parametrize("status", [0, 500, 429, 404], ids=["it works", "an error", "too many", "unknown"])
def test_any_answer_ends_it_for_all(staff: User, product: Product, stub: BatchStub, status: int):
    jobs = begin(staff, product, 5)
    look(jobs, NOON)
    stub.silent.clear()
    stub.failing = status
    asked = len(stub.asked)
    DescriptionJob.objects.update(look_at=NOON)
    look(jobs, NOON + MINUTE)

    assert len(stub.asked) == asked + 5
    assert not ServerSilence.objects.filter(times__gt=0).exists()


def test_two_silences_and_an_answer_are_no_reason_to_rest(staff: User, product: Product, stub: BatchStub):
    for _ in range(3):
        stub.silent.set()
        look(begin(staff, product, 2), NOON)
        stub.silent.clear()
        (job,) = begin(staff, product, 1)
        look([job], NOON)
        assert job.state == "running"
    assert len(stub.asked) == 9


def test_what_is_cancelled_or_too_old_ends_without_the_server(staff: User, product: Product, stub: BatchStub):
    old, cancelled = begin(staff, product, 2)
    ServerSilence.objects.create(times=9, rests_until=NOON + timedelta(days=3))
    cancel_job(author=staff, job_id=cancelled.pk, now=NOON)
    look([cancelled], NOON)
    look([old], NOON + timedelta(hours=26))

    assert (cancelled.state, old.state, old.error) == (
        "cancelled",
        "failed",
        "The model server did not answer for a day.",
    )
    assert stub.asked == []
    assert Allowance.objects.get().used == 0


def test_a_round_over_many_jobs_is_short(staff: User, product: Product, stub: BatchStub):
    begin(staff, product, 30)
    job_rounds.look_after_all(clock=lambda: NOON)

    assert len(stub.asked) == 3
    assert not DescriptionJob.objects.due(NOON).exists()
