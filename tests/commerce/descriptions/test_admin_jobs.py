"""Bulk jobs in the admin: begun from the products' list, watched, cancelled."""

from collections.abc import Iterator

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from commerce.catalog.models import Product
from commerce.descriptions import job_rounds
from commerce.descriptions.models import DescriptionDraft, DescriptionJob
from commerce.shops.models import Shop
from shared.accounts.models import User
from tests.commerce.catalog.goods import make_product
from tests.commerce.descriptions.batch_stub import BatchStub, running_stub

PRODUCTS = "/admin/commerce_catalog/product/"
JOBS = "/admin/commerce_descriptions/descriptionjob/"
EVIL = "<script>alert(1)</script>"

pytestmark = pytest.mark.django_db


@pytest.fixture
def stub(settings: Settings) -> Iterator[BatchStub]:
    with running_stub() as server:
        settings.DESCRIPTIONS_BASE_URL = f"{server.url}/v1"
        settings.CELERY_BROKER_URL = "memory://"  # nobody looks after a job but the test
        yield server


@pytest.fixture
def desk(admin: User) -> Client:
    client = Client()
    client.force_login(admin)
    return client


@pytest.fixture
def products(shop: Shop) -> list[Product]:
    return [make_product(shop, slug=f"lamp-{number}", name=f"{EVIL} {number}") for number in range(3)]


def begin(desk: Client, products: list[Product], **wishes: str) -> DescriptionJob:
    ids = [product.pk for product in products]
    answer = desk.post(f"{JOBS}new/", {"product": ids, "max_words": "40", "tone": "friendly"} | wishes)
    job = DescriptionJob.objects.get()
    assert answer.headers["Location"] == f"{JOBS}{job.pk}/change/"
    return job


def test_chosen_products_lead_to_a_page_that_asks_how_they_should_be(desk: Client, products: list[Product]):
    chosen = {"action": "describe", "_selected_action": [product.pk for product in products[:2]]}
    answer = desk.post(PRODUCTS, chosen, follow=True)
    shown = answer.content.decode()

    assert answer.request["PATH_INFO"] == f"{JOBS}new/"
    assert "A draft is written for each of 2 products" in shown
    assert shown.count('type="hidden" name="product"') == 2
    assert "<script>alert" not in shown
    assert not DescriptionJob.objects.exists()


def test_a_job_is_watched_to_its_end_and_leads_to_its_drafts(
    desk: Client, admin: User, products: list[Product], stub: BatchStub
):
    job = begin(desk, products, keywords="brass, warm")
    assert (job.author, job.total, job.keywords, job.language) == (admin, 3, ["brass", "warm"], "")
    assert desk.get(f"{JOBS}{job.pk}/progress/").json() == {
        "done": 0, "is_open": True, "state": "Waits for the model server", "told": "0 of 3 written, 0 failed",
    }  # fmt: skip
    job_rounds.look_after(job_id=job.pk, now=timezone.now())
    stub.texts, stub.broken = {"0": "Bright & <3."}, {"1"}
    stub.finish()
    DescriptionJob.objects.update(look_at=timezone.now())
    job_rounds.look_after(job_id=job.pk, now=timezone.now())

    assert desk.get(f"{JOBS}{job.pk}/progress/").json()["told"] == "2 of 3 written, 1 failed"
    shown = desk.get(f"{JOBS}{job.pk}/change/").content.decode()
    assert "Bright &amp; &lt;3." in shown
    assert "INFERENCE_FAILED" in shown
    assert "<script>alert" not in shown
    listed = desk.get(f"/admin/commerce_descriptions/descriptiondraft/?item__job__id__exact={job.pk}")
    assert listed.context["cl"].result_count == 2
    assert desk.get(JOBS).content.decode().count("<progress") == 1


def test_a_job_is_cancelled(desk: Client, products: list[Product], stub: BatchStub):
    job = begin(desk, products)
    desk.post(f"{JOBS}{job.pk}/cancel/")
    assert desk.get(f"{JOBS}{job.pk}/progress/").json()["state"] == "Is being cancelled"
    job_rounds.look_after(job_id=job.pk, now=timezone.now())

    job.refresh_from_db()
    assert job.state == "cancelled"
    told = desk.post(f"{JOBS}{job.pk}/cancel/", follow=True).content.decode()
    assert "This job is cancelled already." in told


@pytest.mark.parametrize(
    ("wishes", "told"),
    [({"language": "English"}, "Write the language as in en"), ({"keywords": "k" * 65}, "Name at most 20 keywords")],
)
def test_what_cannot_be_is_told_and_nothing_begins(
    desk: Client, products: list[Product], wishes: dict[str, str], told: str
):
    answer = desk.post(f"{JOBS}new/", {"product": [products[0].pk], "max_words": "40"} | wishes)

    assert told in answer.content.decode()
    assert not DescriptionJob.objects.exists()


def test_more_than_is_left_is_told_and_nothing_begins(desk: Client, products: list[Product], settings: Settings):
    settings.DESCRIPTIONS_A_DAY = 2
    shown = desk.get(f"{JOBS}new/", {"product": [product.pk for product in products]}).content.decode()
    answer = desk.post(f"{JOBS}new/", {"product": [product.pk for product in products], "max_words": "40"})

    assert "2 left today" in shown
    assert "today, 2 are left" in answer.content.decode()
    assert not DescriptionJob.objects.exists()


def test_what_goes_wrong_is_told_in_german_too(
    desk: Client, products: list[Product], stub: BatchStub, settings: Settings
):
    german = {"Accept-Language": "de"}
    job = begin(desk, products)
    stub.failing = 401
    job_rounds.look_after(job_id=job.pk, now=timezone.now())
    settings.DESCRIPTIONS_A_DAY = 2
    chosen = {"product": [product.pk for product in products], "max_words": "40"}

    assert '<progress max="3" value="0">' in desk.get(JOBS).text
    assert "Der Modellserver hat den Auftrag abgelehnt" in desk.get(f"{JOBS}{job.pk}/change/", headers=german).text
    assert (
        "Dieser Auftrag ist schon gescheitert."
        in desk.post(f"{JOBS}{job.pk}/cancel/", headers=german, follow=True).text
    )
    spent = desk.post(f"{JOBS}new/", chosen, headers=german).text
    assert "Von den 2 Beschreibungen, die dieser Laden heute verlangen darf, sind noch 2 übrig." in spent


def test_no_products_lead_back_to_the_list(desk: Client):
    assert desk.get(f"{JOBS}new/", {"product": ["x", "999"]}).headers["Location"] == PRODUCTS


def test_x2_others_than_super_admins_see_and_do_nothing_here(owner: User, products: list[Product]):
    client = Client()
    client.force_login(owner)
    for path in ("new/", "1/change/", "1/progress/", ""):
        assert client.get(f"{JOBS}{path}").status_code == 302
    for path in ("new/", "1/cancel/"):
        assert client.post(f"{JOBS}{path}", {"product": [products[0].pk], "max_words": "40"}).status_code == 302
    assert not DescriptionJob.objects.exists()
    assert not DescriptionDraft.objects.exists()
