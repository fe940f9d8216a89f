"""Tests of the cooldown: an unreachable model server occupies few workers, however many jobs are due."""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from pytest_django import Settings

from commerce.catalog.models import Product
from commerce.descriptions.jobs import processing
from commerce.descriptions.jobs.cooldown import PROBE_TIMEOUT
from commerce.descriptions.jobs.services import DescriptionOptions, cancel_job, create_job
from commerce.descriptions.models import DescriptionJob, QuotaUsage, ServerCooldown
from commerce.descriptions.provider import batches
from commerce.shops.models import Shop
from shared.accounts.models import User
from tests.commerce.catalog.factories import make_product
from tests.commerce.descriptions.jobs.fake_batch_server import FakeBatchServer, running_fake_server

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)

pytestmark = [pytest.mark.django_db, pytest.mark.no_database]


@pytest.fixture
def batch_server(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeBatchServer]:
    """Start a server that accepts requests and never responds."""
    monkeypatch.setattr(batches, "CALL_TIMEOUT_SECONDS", 0.2)
    with running_fake_server() as server:
        settings.DESCRIPTIONS_BASE_URL = f"{server.url}/v1"
        settings.CELERY_BROKER_URL = "memory://"  # only the test processes jobs
        server.silent.set()
        yield server


@pytest.fixture
def product(shop: Shop) -> Product:
    return make_product(shop)


def create_jobs(author: User, product: Product, count: int) -> list[DescriptionJob]:
    return [
        create_job(author=author, product_ids=[product.pk], options=DescriptionOptions(), now=NOON)
        for _ in range(count)
    ]


def process(jobs: list[DescriptionJob], at: datetime) -> None:
    for job in jobs:
        processing.process_job(job_id=job.pk, now=at)
        job.refresh_from_db()


def delay_seconds(job: DescriptionJob, since: datetime) -> int:
    """Return the rounded seconds until the job's next check."""
    return round((job.next_check_at - since).total_seconds())


def test_three_unanswered_calls_start_the_cooldown(staff: User, product: Product, batch_server: FakeBatchServer):
    jobs = create_jobs(staff, product, 8)
    process(jobs, NOON)

    assert len(batch_server.requests) == 3
    assert [delay_seconds(job, NOON) for job in jobs] == [3, 3, 3, 10, 10, 10, 10, 10]
    assert {job.state for job in jobs} == {"waiting"}


def test_one_worker_probes_after_the_cooldown_and_the_next_cooldown_is_longer(
    staff: User, product: Product, batch_server: FakeBatchServer
):
    jobs = create_jobs(staff, product, 6)
    process(jobs, NOON)
    at, cooldowns = NOON, []
    for _ in range(6):
        at = max(job.next_check_at for job in jobs)
        call_count = len(batch_server.requests)
        DescriptionJob.objects.update(next_check_at=at)
        process(jobs, at)
        assert len(batch_server.requests) == call_count + 1
        cooldowns.append(delay_seconds(jobs[-1], at))
    assert cooldowns == [20, 40, 80, 120, 120, 120]


def test_other_workers_wait_for_a_probe_and_replace_a_dead_one(
    staff: User, product: Product, batch_server: FakeBatchServer
):
    first, second, third = create_jobs(staff, product, 3)
    ServerCooldown.objects.create(failure_count=3, cooldown_until=NOON, probe_until=NOON + PROBE_TIMEOUT)
    process([first], NOON)
    assert (delay_seconds(first, NOON), batch_server.requests) == (3, [])

    process([second, third], NOON + PROBE_TIMEOUT)
    assert len(batch_server.requests) == 1


@pytest.mark.parametrize("status", [0, 500, 429, 404], ids=["it works", "an error", "too many", "unknown"])
def test_any_response_ends_the_cooldown(staff: User, product: Product, batch_server: FakeBatchServer, status: int):
    jobs = create_jobs(staff, product, 5)
    process(jobs, NOON)
    batch_server.silent.clear()
    batch_server.failing = status
    call_count = len(batch_server.requests)
    DescriptionJob.objects.update(next_check_at=NOON)
    process(jobs, NOON + MINUTE)

    assert len(batch_server.requests) == call_count + 5
    assert not ServerCooldown.objects.filter(failure_count__gt=0).exists()


def test_two_failures_and_a_response_start_no_cooldown(staff: User, product: Product, batch_server: FakeBatchServer):
    for _ in range(3):
        batch_server.silent.set()
        process(create_jobs(staff, product, 2), NOON)
        batch_server.silent.clear()
        (job,) = create_jobs(staff, product, 1)
        process([job], NOON)
        assert job.state == "running"
    assert len(batch_server.requests) == 9


def test_cancelled_or_old_job_ends_without_a_call(staff: User, product: Product, batch_server: FakeBatchServer):
    old, cancelled = create_jobs(staff, product, 2)
    ServerCooldown.objects.create(failure_count=9, cooldown_until=NOON + timedelta(days=3))
    cancel_job(author=staff, job_id=cancelled.pk, now=NOON)
    process([cancelled], NOON)
    process([old], NOON + timedelta(hours=26))

    assert (cancelled.state, old.state, old.error) == (
        "cancelled",
        "failed",
        "The model server did not answer for a day.",
    )
    assert batch_server.requests == []
    assert QuotaUsage.objects.get().used == 0


def test_run_over_many_jobs_makes_three_calls(staff: User, product: Product, batch_server: FakeBatchServer):
    create_jobs(staff, product, 30)
    processing.process_due_jobs(clock=lambda: NOON)

    assert len(batch_server.requests) == 3
    assert not DescriptionJob.objects.due(NOON).exists()
