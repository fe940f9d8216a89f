"""Tests of jobs, with a fake model server on a real socket."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from commerce.catalog.models import Product
from commerce.descriptions.drafts import accept_drafts
from commerce.descriptions.jobs import processing
from commerce.descriptions.jobs.services import MAX_PRODUCTS_COUNT, DescriptionOptions, cancel_job, create_job
from commerce.descriptions.models import DescriptionDraft, DescriptionJob, JobItem, QuotaUsage
from commerce.descriptions.provider.batches import BatchClient
from commerce.descriptions.quotas import QuotaExceeded
from commerce.descriptions.text.best_text import BestText
from commerce.descriptions.text.prompts import DescriptionRequest
from commerce.shops.models import Shop, ShopStaff
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError, ValidationFailed
from tests.commerce.catalog.factories import make_product
from tests.commerce.conftest import make_user
from tests.commerce.descriptions.jobs.fake_batch_server import SECRET_WORD, FakeBatchServer, running_fake_server
from tests.commerce.descriptions.provider.fake_server import ProviderServer

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)

pytestmark = pytest.mark.django_db


@pytest.fixture
def batch_server(settings: Settings) -> Iterator[FakeBatchServer]:
    with running_fake_server() as server:
        settings.DESCRIPTIONS_BASE_URL = f"{server.url}/v1"
        settings.DESCRIPTIONS_API_KEY = "sk-canary-key"
        settings.CELERY_BROKER_URL = "memory://"  # only the test processes jobs
        yield server


@pytest.fixture
def products(shop: Shop) -> list[Product]:
    return [make_product(shop, slug=f"lamp-{number}", name=f"Lamp {number}") for number in range(5)]


def make_job(author: User, products: list[Product], **options: Any) -> DescriptionJob:
    ids = [product.pk for product in products]
    return create_job(author=author, product_ids=ids, options=DescriptionOptions(**options), now=NOON)


def process(job: DescriptionJob, at: datetime) -> DescriptionJob:
    processing.process_job(job_id=job.pk, now=at)
    job.refresh_from_db()
    return job


def charged_count() -> int:
    return sum(QuotaUsage.objects.values_list("used", flat=True))


def states(job: DescriptionJob) -> list[str]:
    return list(job.items.order_by("position").values_list("state", flat=True))


def test_job_is_one_batch_and_drafts_are_stored_as_they_are_written(
    staff: User, products: list[Product], batch_server: FakeBatchServer
):
    job = make_job(staff, products, tone="friendly", keywords=("brass",), max_words=40)
    assert (process(job, NOON).state, job.batch_id) == ("running", "batch_0")
    batch_server.finish(2)
    process(job, NOON + 10 * SECOND)
    assert (job.state, job.written, states(job)) == ("running", 2, ["written"] * 2 + ["waiting"] * 3)
    batch_server.finish()
    process(job, NOON + 20 * SECOND)

    assert (job.state, job.written, job.failed, job.total) == ("completed", 5, 0, 5)
    assert job.ended_at == NOON + 20 * SECOND
    drafts = DescriptionDraft.objects.order_by("pk")
    assert [(draft.product, draft.text) for draft in drafts] == [
        (product, f"Text for Lamp {position} in brass.") for position, product in enumerate(products)
    ]
    assert {(d.author, d.tone, d.language, d.max_words, d.state) for d in drafts} == {
        (staff, "friendly", "en", 40, "open")
    }
    (batch,) = batch_server.batches.values()
    assert batch["authorization"] == "Bearer sk-canary-key"
    assert batch["requests"][3]["id"] == "3"
    assert batch["requests"][3]["messages"][-1]["content"] == (
        "Write a product description.\nProduct name: Lamp 3\nKeywords: brass\nTone: friendly\nLength: short (40 words)"
    )
    assert charged_count() == 5


def test_a_text_that_does_not_keep_to_the_facts_is_replaced_by_them(
    staff: User, products: list[Product], batch_server: FakeBatchServer
):
    batch_server.texts = {"0": "A vase of oak."}
    job = process(make_job(staff, products, keywords=("brass",)), NOON)
    batch_server.finish()
    process(job, NOON + 10 * SECOND)

    assert (job.state, job.written, job.failed) == ("completed", 5, 0)
    drafts = DescriptionDraft.objects.order_by("pk")
    assert [(draft.text, draft.is_fallback) for draft in drafts][:2] == [
        ("Lamp 0: brass.", True),
        ("Text for Lamp 1 in brass.", False),
    ]
    (batch,) = batch_server.batches.values()
    assert {request["n"] for request in batch["requests"]} == {8}


def test_where_no_text_of_the_batch_keeps_the_rules_others_are_drawn(
    staff: User,
    products: list[Product],
    batch_server: FakeBatchServer,
    provider_server: ProviderServer,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(processing, "batch_client", lambda: BatchClient(url=batch_server.url, api_key="sk-canary-key"))
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("good")
    provider_server.texts = ["Lamp 0 comes in brass."]
    batch_server.texts = {"0": "A vase of oak."}
    job = process(make_job(staff, products[:2], keywords=("brass",)), NOON)
    batch_server.finish()
    process(job, NOON + 10 * SECOND)

    drafts = DescriptionDraft.objects.order_by("pk")
    assert [(draft.text, draft.is_fallback) for draft in drafts] == [
        ("Lamp 0 comes in brass.", False),
        ("Text for Lamp 1 in brass.", False),
    ]
    assert len(provider_server.requests) == 1


def test_a_run_that_draws_for_long_ends_before_its_worker_is_considered_dead(
    staff: User, products: list[Product], batch_server: FakeBatchServer, monkeypatch: pytest.MonkeyPatch
):
    batch_server.page, batch_server.texts = 2, dict.fromkeys("01234", "A vase of oak.")
    durations, elapsed = iter((5, 4, 9, 19)), 0

    async def draw_slowly(request: DescriptionRequest, model: str) -> BestText:
        nonlocal elapsed
        elapsed += next(durations)
        return BestText(request, model)

    monkeypatch.setattr(processing, "time", SimpleNamespace(monotonic=lambda: elapsed))
    monkeypatch.setattr(processing, "draw_best", draw_slowly)
    job = process(make_job(staff, products), NOON)
    batch_server.finish()
    process(job, NOON + 10 * SECOND)

    assert (elapsed, job.state, job.failed) == (37, "running", 4)
    assert timedelta(seconds=elapsed) < processing.PROCESSING_TIMEOUT


def test_a_product_in_a_language_that_the_model_cannot_write_is_refused(staff: User, shop: Shop):
    german = make_product(shop, slug="lampe", language="de")

    with pytest.raises(ValidationFailed, match=f"stoa-describer writes English only, and product {german.pk} is in de"):
        make_job(staff, [german])
    assert make_job(staff, [german], language="en").total == 1
    assert charged_count() == 1


def test_default_language_is_the_products(staff: User, shop: Shop, batch_server: FakeBatchServer, settings: Settings):
    settings.DESCRIPTIONS_MODEL = "gpt-9"
    german = make_product(shop, slug="lampe", language="de")
    process(make_job(staff, [german]), NOON)
    (batch,) = batch_server.batches.values()

    assert batch["requests"][0]["messages"][-1]["content"].endswith("\nLanguage: de")


def test_result_pages_are_read_from_the_last_stored_one(
    staff: User, products: list[Product], batch_server: FakeBatchServer
):
    batch_server.page = 2
    job = process(make_job(staff, products), NOON)
    batch_server.finish(3)
    process(job, NOON + 10 * SECOND)
    batch_server.finish()
    process(job, NOON + 20 * SECOND)

    assert (job.state, job.written) == ("completed", 5)
    afters = [call.split("after=")[1].split("&")[0] for call in batch_server.requests if "results" in call]
    assert afters == ["-1", "1", "2", "2", "4"] or afters == ["-1", "1", "2", "2"]


def test_failed_or_empty_text_is_recorded_and_refunded(
    staff: User, products: list[Product], batch_server: FakeBatchServer
):
    batch_server.broken, batch_server.texts = {"1"}, {"2": "<br>", "3": "The <b>fine</b> \x1b[mLamp 3."}
    job = process(make_job(staff, products), NOON)
    batch_server.finish()
    process(job, NOON + 10 * SECOND)

    assert (job.state, job.written, job.failed) == ("completed", 3, 2)
    errors = list(job.items.order_by("position").values_list("error", flat=True))
    assert errors == ["", "INFERENCE_FAILED", "NO_TEXT", "", ""]
    assert JobItem.objects.get(position=3).draft.text == "The fine [mLamp 3."  # type: ignore[union-attr]
    assert charged_count() == 3


@pytest.mark.parametrize("status", ["failed", "expired", "cancelled"])
def test_batch_that_ends_early_ends_the_job_with_its_results(
    staff: User, products: list[Product], batch_server: FakeBatchServer, status: str
):
    job = process(make_job(staff, products), NOON)
    batch_server.finish(2)
    batch_server.end(status)
    process(job, NOON + 10 * SECOND)

    assert (job.written, charged_count()) == (2, 2)
    assert job.state == ("cancelled" if status == "cancelled" else "completed")
    assert DescriptionDraft.objects.count() == 2


def test_worker_that_dies_after_the_submission_submits_no_second_batch(
    staff: User, products: list[Product], batch_server: FakeBatchServer
):
    job = make_job(staff, products)
    batch_server.cut = True
    assert process(job, NOON).batch_id == ""
    batch_server.cut = False
    process(job, NOON + 5 * MINUTE)
    batch_server.finish()
    process(job, NOON + 6 * MINUTE)

    assert len(batch_server.batches) == 1
    assert (job.state, job.written) == ("completed", 5)


def test_resubmitted_batch_uses_the_renamed_products_name(
    staff: User, products: list[Product], batch_server: FakeBatchServer
):
    job = make_job(staff, products)
    batch_server.cut = True
    process(job, NOON)
    batch_server.cut = False
    Product.objects.filter(pk=products[0].pk).update(name="Lantern")
    process(job, NOON + 5 * MINUTE)
    batch_server.finish()
    process(job, NOON + 6 * MINUTE)

    assert (job.state, job.written) == ("completed", 5)
    assert "Lantern" in batch_server.batches[job.batch_id]["requests"][0]["messages"][1]["content"]


def test_products_that_the_author_lost_get_no_draft(
    staff: User, products: list[Product], batch_server: FakeBatchServer
):
    other = Shop.objects.create(owner=make_user(Role.STORE_OWNER, "other"), name="Other", slug="other")
    job = process(make_job(staff, products), NOON)
    Product.objects.filter(pk=products[0].pk).update(deleted_at=NOON)
    Product.objects.filter(pk=products[1].pk).update(shop=other)
    batch_server.finish()
    process(job, NOON + 10 * SECOND)

    assert (job.state, job.written, job.failed) == ("completed", 3, 2)
    errors = list(job.items.order_by("position").values_list("error", flat=True))
    assert errors == ["PRODUCT_GONE", "PRODUCT_GONE", "", "", ""]
    assert set(DescriptionDraft.objects.values_list("product_id", flat=True)) == {p.pk for p in products[2:]}
    assert charged_count() == 3


def test_description_changed_during_the_job_is_not_replaced_in_bulk(
    staff: User, products: list[Product], batch_server: FakeBatchServer
):
    job = process(make_job(staff, products), NOON)
    Product.objects.filter(pk=products[0].pk).update(description="By hand.")
    batch_server.finish()
    process(job, NOON + 10 * SECOND)
    drafts = DescriptionDraft.objects.order_by("pk")
    decisions = accept_drafts(draft_ids=[draft.pk for draft in drafts], actor=staff, now=NOON + MINUTE)

    errors = [(decision.draft, decision.error) for decision in decisions if decision.error]
    assert errors == [(drafts[0], "The product's description was changed after this draft was requested.")]
    texts = ["By hand.", *(f"Text for Lamp {position}." for position in range(1, 5))]
    assert list(Product.objects.order_by("pk").values_list("description", flat=True)) == texts


def test_author_who_left_the_shop_gets_no_drafts(staff: User, products: list[Product], batch_server: FakeBatchServer):
    job = process(make_job(staff, products), NOON)
    ShopStaff.objects.filter(user=staff).delete()
    batch_server.finish()
    process(job, NOON + 10 * SECOND)

    assert (job.state, job.failed, charged_count()) == ("completed", 5, 0)
    assert not DescriptionDraft.objects.exists()


def test_worker_that_dies_while_reading_stores_no_draft_twice(
    staff: User, products: list[Product], batch_server: FakeBatchServer, monkeypatch: pytest.MonkeyPatch
):
    job = process(make_job(staff, products), NOON)
    batch_server.page = 2
    batch_server.finish()
    store_results = processing._store_results

    def store_and_die(job_id: int, *results: Any) -> None:
        store_results(job_id, *results)
        raise KeyboardInterrupt

    monkeypatch.setattr(processing, "_store_results", store_and_die)
    with pytest.raises(KeyboardInterrupt):
        process(job, NOON + 10 * SECOND)
    monkeypatch.undo()
    assert process(job, NOON + 20 * SECOND).state == "running"  # a dead worker is replaced after a minute and a half
    process(job, NOON + 5 * MINUTE)

    assert (job.state, job.written) == ("completed", 5)
    assert DescriptionDraft.objects.count() == 5


@pytest.mark.parametrize("failing", [503, 500, 429])
def test_unavailable_server_is_retried_with_backoff(
    staff: User, products: list[Product], batch_server: FakeBatchServer, failing: int, caplog: pytest.LogCaptureFixture
):
    job = make_job(staff, products)
    batch_server.failing = failing
    delays, at = [], NOON
    for _ in range(7):
        process(job, at)
        delays.append((job.next_check_at - at).total_seconds())
        at = job.next_check_at
    assert delays == [3, 6, 12, 24, 48, 60, 60]
    batch_server.failing = 0
    process(job, at)
    batch_server.finish()
    process(job, at + MINUTE)

    assert job.state == "completed"
    assert SECRET_WORD not in caplog.text
    assert "sk-canary" not in caplog.text


def test_job_fails_after_a_day_without_a_response(staff: User, products: list[Product], settings: Settings):
    settings.CELERY_BROKER_URL = "memory://"
    settings.DESCRIPTIONS_BASE_URL = "http://127.0.0.1:9/v1"
    job = make_job(staff, products)
    process(job, NOON + timedelta(hours=26))

    assert (job.state, job.error) == ("failed", "The model server did not answer for a day.")
    assert states(job) == ["failed"] * 5
    assert charged_count() == 0


@pytest.mark.parametrize(
    ("failing", "garbage", "record"),
    [(401, False, "refused the batch"), (400, False, "refused the batch"), (404, False, "does not know"),
     (0, True, "invalid response")],
)  # fmt: skip
def test_refused_batch_fails_the_job_with_a_fixed_message(
    staff: User, products: list[Product], batch_server: FakeBatchServer, failing: int, garbage: bool, record: str
):
    batch_server.failing, batch_server.garbage = failing, garbage
    job = process(make_job(staff, products), NOON)

    assert job.state == "failed"
    assert record in job.error
    assert SECRET_WORD not in job.error
    assert charged_count() == 0


def test_cancellation_keeps_written_drafts_and_refunds_the_rest(
    staff: User, products: list[Product], batch_server: FakeBatchServer
):
    job = process(make_job(staff, products), NOON)
    batch_server.finish(2)
    cancel_job(author=staff, job_id=job.pk, now=NOON + 10 * SECOND)
    process(job, NOON + 10 * SECOND)

    assert (job.state, states(job)) == ("cancelled", ["written"] * 2 + ["cancelled"] * 3)
    assert charged_count() == 2
    assert "POST /batch/batch_0/cancel" in batch_server.requests
    with pytest.raises(ApiError) as raised:
        cancel_job(author=staff, job_id=job.pk, now=NOON + MINUTE)
    assert raised.value.problem.status == 409


def test_job_cancelled_before_the_submission_is_never_submitted(
    staff: User, products: list[Product], batch_server: FakeBatchServer
):
    job = make_job(staff, products)
    cancel_job(author=staff, job_id=job.pk, now=NOON)
    process(job, NOON)

    assert (job.state, charged_count(), batch_server.requests) == ("cancelled", 0, [])


def test_job_cancelled_during_the_submission_cancels_its_batch(
    staff: User, products: list[Product], batch_server: FakeBatchServer, monkeypatch: pytest.MonkeyPatch
):
    job = make_job(staff, products)
    submit = BatchClient.submit

    def submit_and_cancel(client: BatchClient, body: dict[str, Any], *, key: str) -> str:
        batch_id = submit(client, body, key=key)
        cancel_job(author=staff, job_id=job.pk, now=NOON + SECOND)
        processing.process_job(job_id=job.pk, now=NOON + SECOND)
        return batch_id

    monkeypatch.setattr(BatchClient, "submit", submit_and_cancel)
    process(job, NOON)

    assert (job.state, job.batch_id, charged_count()) == ("cancelled", "", 0)
    assert batch_server.batches["batch_0"]["status"] == "cancelled"


@pytest.mark.parametrize("name", ["batch/../keys?x=", "b" * 65, "batch\x00"], ids=["an address", "long", "nul"])
def test_invalid_batch_id_fails_the_job(staff: User, products: list[Product], batch_server: FakeBatchServer, name: str):
    batch_server.batch_name = name
    job = process(make_job(staff, products), NOON)

    assert (job.state, charged_count()) == ("failed", 0)
    assert "invalid response" in job.error


def test_page_that_repeats_itself_fails_the_job(staff: User, products: list[Product], batch_server: FakeBatchServer):
    job = process(make_job(staff, products), NOON)
    batch_server.finish(2)
    batch_server.stuck = True
    process(job, NOON + 10 * SECOND)

    assert (job.state, job.written, charged_count()) == ("failed", 2, 2)
    assert "invalid response" in job.error


def test_job_over_the_quota_charges_nothing(staff: User, products: list[Product], settings: Settings):
    settings.DESCRIPTIONS_PER_DAY = 4
    with pytest.raises(QuotaExceeded):
        make_job(staff, products)

    assert charged_count() == 0
    assert not DescriptionJob.objects.exists()


@pytest.mark.parametrize("count", [0, MAX_PRODUCTS_COUNT + 1])
def test_zero_or_too_many_products_are_refused(staff: User, count: int):
    with pytest.raises(ValidationFailed, match="from 1 to 200 products"):
        create_job(author=staff, product_ids=range(1, count + 1), options=DescriptionOptions(), now=NOON)


def test_product_of_another_shop_is_refused(staff: User, products: list[Product]):
    foreign_product = make_product(
        Shop.objects.create(owner=make_user(Role.STORE_OWNER, "other"), name="Other", slug="other"), slug="theirs"
    )
    with pytest.raises(ValidationFailed, match=f"no product with the id {foreign_product.pk}"):
        make_job(staff, [*products, foreign_product])

    assert charged_count() == 0


def test_duplicate_product_is_described_once(staff: User, products: list[Product]):
    assert make_job(staff, [products[0], products[0]]).total == 1


def test_constraints_hold_for_states_and_counts(staff: User, products: list[Product]):
    job = make_job(staff, products)
    for values in ({"state": "half"}, {"state": "completed"}, {"ended_at": NOON}, {"written": 4, "failed": 2}):
        with pytest.raises(IntegrityError), transaction.atomic():
            DescriptionJob.objects.filter(pk=job.pk).update(**values)
    with pytest.raises(IntegrityError), transaction.atomic():
        JobItem.objects.filter(job=job).update(state="written")


def test_reading_a_job_processes_it_without_a_worker(
    staff: User,
    products: list[Product],
    batch_server: FakeBatchServer,
    settings: Settings,
    client_of: Any,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
):
    settings.CELERY_BROKER_URL = ""
    client = client_of(staff)
    body = {"product_ids": [product.pk for product in products]}
    with django_capture_on_commit_callbacks(execute=True):
        response = client.post("/api/description-jobs", body, content_type="application/json")
    assert response.status_code == 201
    batch_server.finish()
    DescriptionJob.objects.update(next_check_at=NOON)
    record = client.get(f"/api/description-jobs/{response.json()['id']}").json()

    assert (record["state"], record["written"], record["failed"], record["total"]) == ("completed", 5, 0, 5)
    assert [item["product_id"] for item in record["items"]] == [product.pk for product in products]
    assert all(item["state"] == "written" and item["draft_id"] for item in record["items"])


@pytest.mark.django_db(transaction=True)
def test_eight_concurrent_workers_store_no_draft_twice(
    staff: User, products: list[Product], batch_server: FakeBatchServer
):
    job = process(make_job(staff, products), NOON)
    batch_server.finish()
    barrier = threading.Barrier(8)

    def work(number: int) -> None:
        barrier.wait(timeout=60)
        try:
            # The times make each worker consider the previous one dead.
            processing.process_job(job_id=job.pk, now=NOON + (number + 1) * 5 * MINUTE)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    job.refresh_from_db()
    assert (job.state, job.written) == ("completed", 5)
    assert DescriptionDraft.objects.count() == 5
    assert charged_count() == 5
