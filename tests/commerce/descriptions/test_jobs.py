"""Descriptions for many products at once, over a model server on a real socket."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from pytest_django import DjangoCaptureOnCommitCallbacks, Settings

from commerce.catalog.models import Product
from commerce.descriptions import job_rounds
from commerce.descriptions.allowances import AllowanceSpent
from commerce.descriptions.batch_server import BatchServer
from commerce.descriptions.drafts import accept_drafts
from commerce.descriptions.jobs import MOST_PRODUCTS, Wishes, cancel_job, create_job
from commerce.descriptions.models import Allowance, DescriptionDraft, DescriptionJob, JobItem
from commerce.shops.models import Shop, ShopStaff
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError, ValidationFailed
from tests.commerce.catalog.goods import make_product
from tests.commerce.conftest import make_user
from tests.commerce.descriptions.batch_stub import SECRET_WORD, BatchStub, running_stub

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)

pytestmark = pytest.mark.django_db


@pytest.fixture
def stub(settings: Settings) -> Iterator[BatchStub]:
    with running_stub() as server:
        settings.DESCRIPTIONS_BASE_URL = f"{server.url}/v1"
        settings.DESCRIPTIONS_API_KEY = "sk-canary-key"
        settings.CELERY_BROKER_URL = "memory://"  # nobody looks after a job but the test
        yield server


@pytest.fixture
def products(shop: Shop) -> list[Product]:
    return [make_product(shop, slug=f"lamp-{number}", name=f"Lamp {number}") for number in range(5)]


def begin(author: User, products: list[Product], **wishes: Any) -> DescriptionJob:
    ids = [product.pk for product in products]
    return create_job(author=author, product_ids=ids, wishes=Wishes(**wishes), now=NOON)


def look(job: DescriptionJob, at: datetime) -> DescriptionJob:
    job_rounds.look_after(job_id=job.pk, now=at)
    job.refresh_from_db()
    return job


def used() -> int:
    return sum(Allowance.objects.values_list("used", flat=True))


def states(job: DescriptionJob) -> list[str]:
    return list(job.items.order_by("place").values_list("state", flat=True))


def test_a_job_is_one_batch_and_its_drafts_come_as_they_are_written(
    staff: User, products: list[Product], stub: BatchStub
):
    job = begin(staff, products, tone="friendly", keywords=("brass",), max_words=40)
    assert (look(job, NOON).state, job.batch_id) == ("running", "batch_0")
    stub.finish(2)
    look(job, NOON + 10 * SECOND)
    assert (job.state, job.written, states(job)) == ("running", 2, ["written"] * 2 + ["waiting"] * 3)
    stub.finish()
    look(job, NOON + 20 * SECOND)

    assert (job.state, job.written, job.failed, job.total) == ("completed", 5, 0, 5)
    assert job.ended_at == NOON + 20 * SECOND
    drafts = DescriptionDraft.objects.order_by("pk")
    assert [(draft.product, draft.text) for draft in drafts] == [
        (product, f"Text {place}.") for place, product in enumerate(products)
    ]
    assert {(d.author, d.tone, d.language, d.max_words, d.state) for d in drafts} == {
        (staff, "friendly", "en", 40, "open")
    }
    (batch,) = stub.batches.values()
    assert batch["authorization"] == "Bearer sk-canary-key"
    assert batch["requests"][3]["id"] == "3"
    assert batch["requests"][3]["messages"][1]["content"] == (
        "Write a product description.\nProduct name: Lamp 3\nKeywords: brass\nTone: friendly\nLength: short (40 words)"
    )
    assert used() == 5


def test_without_a_language_each_is_in_its_products(staff: User, shop: Shop, stub: BatchStub):
    german = make_product(shop, slug="lampe", language="de")
    look(begin(staff, [german]), NOON)
    (batch,) = stub.batches.values()

    assert batch["requests"][0]["messages"][1]["content"].endswith("\nLanguage: de")


def test_pages_are_fetched_one_after_the_other_and_from_where_the_last_look_ended(
    staff: User, products: list[Product], stub: BatchStub
):
    stub.page = 2
    job = look(begin(staff, products), NOON)
    stub.finish(3)
    look(job, NOON + 10 * SECOND)
    stub.finish()
    look(job, NOON + 20 * SECOND)

    assert (job.state, job.written) == ("completed", 5)
    afters = [asked.split("after=")[1].split("&")[0] for asked in stub.asked if "results" in asked]
    assert afters == ["-1", "1", "2", "2", "4"] or afters == ["-1", "1", "2", "2"]


def test_what_fails_or_has_no_words_is_told_and_given_back(staff: User, products: list[Product], stub: BatchStub):
    stub.broken, stub.texts = {"1"}, {"2": "<br>", "3": "A <b>fine</b> \x1b[1mlamp."}
    job = look(begin(staff, products), NOON)
    stub.finish()
    look(job, NOON + 10 * SECOND)

    assert (job.state, job.written, job.failed) == ("completed", 3, 2)
    errors = list(job.items.order_by("place").values_list("error", flat=True))
    assert errors == ["", "INFERENCE_FAILED", "NO_TEXT", "", ""]
    assert JobItem.objects.get(place=3).draft.text == "A fine [1mlamp."  # type: ignore[union-attr]
    assert used() == 3


@pytest.mark.parametrize("status", ["failed", "expired", "cancelled"])
def test_a_batch_that_ends_early_ends_the_job_with_what_there_is(
    staff: User, products: list[Product], stub: BatchStub, status: str
):
    job = look(begin(staff, products), NOON)
    stub.finish(2)
    stub.end(status)
    look(job, NOON + 10 * SECOND)

    assert (job.written, used()) == (2, 2)
    assert job.state == ("cancelled" if status == "cancelled" else "completed")
    assert DescriptionDraft.objects.count() == 2


def test_a_worker_that_dies_after_the_batch_was_sent_sends_no_second_one(
    staff: User, products: list[Product], stub: BatchStub
):
    job = begin(staff, products)
    stub.cut = True
    assert look(job, NOON).batch_id == ""
    stub.cut = False
    look(job, NOON + 5 * MINUTE)
    stub.finish()
    look(job, NOON + 6 * MINUTE)

    assert len(stub.batches) == 1
    assert (job.state, job.written) == ("completed", 5)


def test_a_product_that_gets_another_name_before_the_batch_is_sent_again_is_described_by_it(
    staff: User, products: list[Product], stub: BatchStub
):
    job = begin(staff, products)
    stub.cut = True
    look(job, NOON)
    stub.cut = False
    Product.objects.filter(pk=products[0].pk).update(name="Lantern")
    look(job, NOON + 5 * MINUTE)
    stub.finish()
    look(job, NOON + 6 * MINUTE)

    assert (job.state, job.written) == ("completed", 5)
    assert "Lantern" in stub.batches[job.batch_id]["requests"][0]["messages"][1]["content"]


def test_what_becomes_of_products_meanwhile_is_looked_at_again(staff: User, products: list[Product], stub: BatchStub):
    other = Shop.objects.create(owner=make_user(Role.STORE_OWNER, "other"), name="Other", slug="other")
    job = look(begin(staff, products), NOON)
    Product.objects.filter(pk=products[0].pk).update(deleted_at=NOON)
    Product.objects.filter(pk=products[1].pk).update(shop=other)
    stub.finish()
    look(job, NOON + 10 * SECOND)

    assert (job.state, job.written, job.failed) == ("completed", 3, 2)
    errors = list(job.items.order_by("place").values_list("error", flat=True))
    assert errors == ["PRODUCT_GONE", "PRODUCT_GONE", "", "", ""]
    assert set(DescriptionDraft.objects.values_list("product_id", flat=True)) == {p.pk for p in products[2:]}
    assert used() == 3


def test_a_text_of_somebodys_own_is_newer_than_the_draft_that_was_asked_for_before_it(
    staff: User, products: list[Product], stub: BatchStub
):
    job = look(begin(staff, products), NOON)
    Product.objects.filter(pk=products[0].pk).update(description="By hand.")
    stub.finish()
    look(job, NOON + 10 * SECOND)
    drafts = DescriptionDraft.objects.order_by("pk")
    outcomes = accept_drafts(draft_ids=[draft.pk for draft in drafts], actor=staff, now=NOON + MINUTE)

    refused = [(outcome.draft, outcome.refusal) for outcome in outcomes if outcome.refusal]
    assert refused == [(drafts[0], "The description was changed after this draft was asked for.")]
    texts = ["By hand.", "Text 1.", "Text 2.", "Text 3.", "Text 4."]
    assert list(Product.objects.order_by("pk").values_list("description", flat=True)) == texts


def test_whoever_no_longer_works_in_the_shop_gets_no_drafts_into_it(
    staff: User, products: list[Product], stub: BatchStub
):
    job = look(begin(staff, products), NOON)
    ShopStaff.objects.filter(user=staff).delete()
    stub.finish()
    look(job, NOON + 10 * SECOND)

    assert (job.state, job.failed, used()) == ("completed", 5, 0)
    assert not DescriptionDraft.objects.exists()


def test_a_worker_that_dies_while_it_reads_writes_no_draft_twice(
    staff: User, products: list[Product], stub: BatchStub, monkeypatch: pytest.MonkeyPatch
):
    job = look(begin(staff, products), NOON)
    stub.page = 2
    stub.finish()
    stored = job_rounds._store

    def die(job_id: int, results: Any, now: datetime) -> None:
        stored(job_id, results, now)
        raise KeyboardInterrupt

    monkeypatch.setattr(job_rounds, "_store", die)
    with pytest.raises(KeyboardInterrupt):
        look(job, NOON + 10 * SECOND)
    monkeypatch.undo()
    assert look(job, NOON + 20 * SECOND).state == "running"  # whoever died is given half a minute
    look(job, NOON + 5 * MINUTE)

    assert (job.state, job.written) == ("completed", 5)
    assert DescriptionDraft.objects.count() == 5


@pytest.mark.parametrize("failing", [503, 500, 429])
def test_a_server_that_is_away_is_asked_again_later_and_later(
    staff: User, products: list[Product], stub: BatchStub, failing: int, caplog: pytest.LogCaptureFixture
):
    job = begin(staff, products)
    stub.failing = failing
    pauses, at = [], NOON
    for _ in range(7):
        look(job, at)
        pauses.append((job.look_at - at).total_seconds())
        at = job.look_at
    assert pauses == [3, 6, 12, 24, 48, 60, 60]
    stub.failing = 0
    look(job, at)
    stub.finish()
    look(job, at + MINUTE)

    assert job.state == "completed"
    assert SECRET_WORD not in caplog.text
    assert "sk-canary" not in caplog.text


def test_after_a_day_without_an_answer_it_is_given_up(staff: User, products: list[Product], settings: Settings):
    settings.CELERY_BROKER_URL = "memory://"
    settings.DESCRIPTIONS_BASE_URL = "http://127.0.0.1:9/v1"
    job = begin(staff, products)
    look(job, NOON + timedelta(hours=26))

    assert (job.state, job.error) == ("failed", "The model server did not answer for a day.")
    assert states(job) == ["failed"] * 5
    assert used() == 0


@pytest.mark.parametrize(
    ("failing", "garbage", "told"),
    [(401, False, "refused the batch"), (400, False, "refused the batch"), (404, False, "does not know"),
     (0, True, "makes no sense")],
)  # fmt: skip
def test_a_server_that_refuses_ends_the_job_in_our_own_words(
    staff: User, products: list[Product], stub: BatchStub, failing: int, garbage: bool, told: str
):
    stub.failing, stub.garbage = failing, garbage
    job = look(begin(staff, products), NOON)

    assert job.state == "failed"
    assert told in job.error
    assert SECRET_WORD not in job.error
    assert used() == 0


def test_cancelling_keeps_what_is_written_and_gives_back_the_rest(
    staff: User, products: list[Product], stub: BatchStub
):
    job = look(begin(staff, products), NOON)
    stub.finish(2)
    cancel_job(author=staff, job_id=job.pk, now=NOON + 10 * SECOND)
    look(job, NOON + 10 * SECOND)

    assert (job.state, states(job)) == ("cancelled", ["written"] * 2 + ["cancelled"] * 3)
    assert used() == 2
    assert "POST /batch/batch_0/cancel" in stub.asked
    with pytest.raises(ApiError) as refused:
        cancel_job(author=staff, job_id=job.pk, now=NOON + MINUTE)
    assert refused.value.problem.status == 409


def test_what_is_cancelled_before_it_was_sent_is_never_sent(staff: User, products: list[Product], stub: BatchStub):
    job = begin(staff, products)
    cancel_job(author=staff, job_id=job.pk, now=NOON)
    look(job, NOON)

    assert (job.state, used(), stub.asked) == ("cancelled", 0, [])


def test_a_batch_whose_job_is_cancelled_while_it_is_sent_is_cancelled_too(
    staff: User, products: list[Product], stub: BatchStub, monkeypatch: pytest.MonkeyPatch
):
    job = begin(staff, products)
    submit = BatchServer.submit

    def slow(server: BatchServer, body: dict[str, Any], *, key: str) -> str:
        batch_id = submit(server, body, key=key)
        cancel_job(author=staff, job_id=job.pk, now=NOON + SECOND)
        job_rounds.look_after(job_id=job.pk, now=NOON + SECOND)
        return batch_id

    monkeypatch.setattr(BatchServer, "submit", slow)
    look(job, NOON)

    assert (job.state, job.batch_id, used()) == ("cancelled", "", 0)
    assert stub.batches["batch_0"]["status"] == "cancelled"


@pytest.mark.parametrize("name", ["batch/../keys?x=", "b" * 65, "batch\x00"], ids=["an address", "long", "nul"])
def test_a_batch_with_a_name_that_is_none_ends_the_job(
    staff: User, products: list[Product], stub: BatchStub, name: str
):
    stub.batch_name = name
    job = look(begin(staff, products), NOON)

    assert (job.state, used()) == ("failed", 0)
    assert "makes no sense" in job.error


def test_pages_that_lead_nowhere_end_the_job(staff: User, products: list[Product], stub: BatchStub):
    job = look(begin(staff, products), NOON)
    stub.finish(2)
    stub.stuck = True
    look(job, NOON + 10 * SECOND)

    assert (job.state, job.written, used()) == ("failed", 2, 2)
    assert "makes no sense" in job.error


def test_a_job_of_more_than_is_left_takes_nothing(staff: User, products: list[Product], settings: Settings):
    settings.DESCRIPTIONS_A_DAY = 4
    with pytest.raises(AllowanceSpent):
        begin(staff, products)

    assert used() == 0
    assert not DescriptionJob.objects.exists()


@pytest.mark.parametrize("count", [0, MOST_PRODUCTS + 1])
def test_none_and_too_many_are_refused(staff: User, count: int):
    with pytest.raises(ValidationFailed, match="1 to 200"):
        create_job(author=staff, product_ids=range(1, count + 1), wishes=Wishes(), now=NOON)


def test_a_product_of_another_shop_is_refused(staff: User, products: list[Product]):
    theirs = make_product(
        Shop.objects.create(owner=make_user(Role.STORE_OWNER, "other"), name="Other", slug="other"), slug="theirs"
    )
    with pytest.raises(ValidationFailed, match=f"no product with the id {theirs.pk}"):
        begin(staff, [*products, theirs])

    assert used() == 0


def test_a_product_that_is_named_twice_is_described_once(staff: User, products: list[Product]):
    assert begin(staff, [products[0], products[0]]).total == 1


def test_the_database_holds_states_and_counts(staff: User, products: list[Product]):
    job = begin(staff, products)
    for wrong in ({"state": "half"}, {"state": "completed"}, {"ended_at": NOON}, {"written": 4, "failed": 2}):
        with pytest.raises(IntegrityError), transaction.atomic():
            DescriptionJob.objects.filter(pk=job.pk).update(**wrong)
    with pytest.raises(IntegrityError), transaction.atomic():
        JobItem.objects.filter(job=job).update(state="written")


def test_without_a_worker_asking_about_a_job_moves_it_on(
    staff: User,
    products: list[Product],
    stub: BatchStub,
    settings: Settings,
    client_of: Any,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
):
    settings.CELERY_BROKER_URL = ""
    client = client_of(staff)
    body = {"product_ids": [product.pk for product in products]}
    with django_capture_on_commit_callbacks(execute=True):
        answer = client.post("/api/description-jobs", body, content_type="application/json")
    assert answer.status_code == 201
    stub.finish()
    DescriptionJob.objects.update(look_at=NOON)
    told = client.get(f"/api/description-jobs/{answer.json()['id']}").json()

    assert (told["state"], told["written"], told["failed"], told["total"]) == ("completed", 5, 0, 5)
    assert [item["product_id"] for item in told["items"]] == [product.pk for product in products]
    assert all(item["state"] == "written" and item["draft_id"] for item in told["items"])


@pytest.mark.django_db(transaction=True)
def test_of_eight_workers_at_one_job_none_writes_a_draft_twice(staff: User, products: list[Product], stub: BatchStub):
    job = look(begin(staff, products), NOON)
    stub.finish()
    together = threading.Barrier(8)

    def work(number: int) -> None:
        together.wait(timeout=60)
        try:
            # As if each of them took the one before it for dead.
            job_rounds.look_after(job_id=job.pk, now=NOON + (number + 1) * 5 * MINUTE)
        finally:
            connection.close()

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    job.refresh_from_db()
    assert (job.state, job.written) == ("completed", 5)
    assert DescriptionDraft.objects.count() == 5
    assert used() == 5
