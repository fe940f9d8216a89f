"""Tests of the pages of jobs."""

from collections.abc import Iterator

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from commerce.catalog.models import Product
from commerce.descriptions.jobs import processing
from commerce.descriptions.models import DescriptionDraft, DescriptionJob
from commerce.shops.models import Shop
from shared.accounts.models import User
from tests.commerce.catalog.factories import make_product
from tests.commerce.descriptions.jobs.fake_batch_server import FakeBatchServer, running_fake_server

PRODUCTS = "/admin/commerce_catalog/product/"
JOBS = "/admin/commerce_descriptions/descriptionjob/"
EVIL = "<script>alert(1)</script>"

pytestmark = pytest.mark.django_db


@pytest.fixture
def batch_server(settings: Settings) -> Iterator[FakeBatchServer]:
    with running_fake_server() as server:
        settings.DESCRIPTIONS_BASE_URL = f"{server.url}/v1"
        settings.CELERY_BROKER_URL = "memory://"  # only the test processes jobs
        yield server


@pytest.fixture
def admin_client(admin: User) -> Client:
    client = Client()
    client.force_login(admin)
    return client


@pytest.fixture
def products(shop: Shop) -> list[Product]:
    return [make_product(shop, slug=f"lamp-{number}", name=f"{EVIL} {number}") for number in range(3)]


def create_job(admin_client: Client, products: list[Product], **options: str) -> DescriptionJob:
    ids = [product.pk for product in products]
    response = admin_client.post(f"{JOBS}new/", {"product": ids, "max_words": "40", "tone": "friendly"} | options)
    job = DescriptionJob.objects.get()
    assert response.headers["Location"] == f"{JOBS}{job.pk}/change/"
    return job


def test_selected_products_lead_to_the_form_of_a_new_job(admin_client: Client, products: list[Product]):
    data = {"action": "describe", "_selected_action": [product.pk for product in products[:2]]}
    response = admin_client.post(PRODUCTS, data, follow=True)
    shown = response.content.decode()

    assert response.request["PATH_INFO"] == f"{JOBS}new/"
    assert "A draft is written for each of 2 products" in shown
    assert shown.count('type="hidden" name="product"') == 2
    assert "<script>alert" not in shown
    assert not DescriptionJob.objects.exists()


def test_job_page_shows_progress_and_links_to_the_drafts(
    admin_client: Client, admin: User, products: list[Product], batch_server: FakeBatchServer
):
    job = create_job(admin_client, products, keywords="brass, warm")
    assert (job.author, job.total, job.keywords, job.language) == (admin, 3, ["brass", "warm"], "")
    assert admin_client.get(f"{JOBS}{job.pk}/progress/").json() == {
        "done": 0, "is_open": True, "state": "Waiting for the model server", "counts": "0 of 3 written, 0 failed",
    }  # fmt: skip
    processing.process_job(job_id=job.pk, now=timezone.now())
    batch_server.texts, batch_server.broken = {"0": f"{products[0].name}: brass, warm & <b."}, {"1"}
    batch_server.finish()
    DescriptionJob.objects.update(next_check_at=timezone.now())
    processing.process_job(job_id=job.pk, now=timezone.now())

    assert admin_client.get(f"{JOBS}{job.pk}/progress/").json()["counts"] == "2 of 3 written, 1 failed"
    shown = admin_client.get(f"{JOBS}{job.pk}/change/").content.decode()
    assert "brass, warm &amp; &lt; b." in shown
    assert "INFERENCE_FAILED" in shown
    assert "<script>alert" not in shown
    listed = admin_client.get(f"/admin/commerce_descriptions/descriptiondraft/?item__job__id__exact={job.pk}")
    assert listed.context["cl"].result_count == 2
    assert admin_client.get(JOBS).content.decode().count("<progress") == 1


def test_job_page_cancels_the_job(admin_client: Client, products: list[Product], batch_server: FakeBatchServer):
    job = create_job(admin_client, products)
    admin_client.post(f"{JOBS}{job.pk}/cancel/")
    assert admin_client.get(f"{JOBS}{job.pk}/progress/").json()["state"] == "Cancelling"
    processing.process_job(job_id=job.pk, now=timezone.now())

    job.refresh_from_db()
    assert job.state == "cancelled"
    page = admin_client.post(f"{JOBS}{job.pk}/cancel/", follow=True).content.decode()
    assert "This job is already cancelled." in page


@pytest.mark.parametrize(
    ("options", "page"),
    [({"language": "English"}, "Enter a language code"), ({"keywords": "k" * 65}, "Enter at most 20 keywords")],
)
def test_invalid_option_gets_a_message_and_creates_no_job(
    admin_client: Client, products: list[Product], options: dict[str, str], page: str
):
    response = admin_client.post(f"{JOBS}new/", {"product": [products[0].pk], "max_words": "40"} | options)

    assert page in response.content.decode()
    assert not DescriptionJob.objects.exists()


def test_exceeded_quota_gets_a_message_and_creates_no_job(
    admin_client: Client, products: list[Product], settings: Settings
):
    settings.DESCRIPTIONS_PER_DAY = 2
    shown = admin_client.get(f"{JOBS}new/", {"product": [product.pk for product in products]}).content.decode()
    response = admin_client.post(f"{JOBS}new/", {"product": [product.pk for product in products], "max_words": "40"})

    assert "2 left today" in shown
    assert "This shop has 2 of its 2 descriptions left" in response.content.decode()
    assert not DescriptionJob.objects.exists()


def test_errors_are_translated_to_german(
    admin_client: Client, products: list[Product], batch_server: FakeBatchServer, settings: Settings
):
    german = {"Accept-Language": "de"}
    job = create_job(admin_client, products)
    batch_server.failing = 401
    processing.process_job(job_id=job.pk, now=timezone.now())
    settings.DESCRIPTIONS_PER_DAY = 2
    data = {"product": [product.pk for product in products], "max_words": "40"}

    assert '<progress max="3" value="0">' in admin_client.get(JOBS).text
    assert (
        "Der Modellserver hat den Auftrag abgelehnt" in admin_client.get(f"{JOBS}{job.pk}/change/", headers=german).text
    )
    assert (
        "Dieser Auftrag ist schon gescheitert."
        in admin_client.post(f"{JOBS}{job.pk}/cancel/", headers=german, follow=True).text
    )
    page = admin_client.post(f"{JOBS}new/", data, headers=german).text
    assert "Dieser Shop hat heute noch 2 von 2 Beschreibungen übrig." in page


def test_no_products_redirects_to_the_product_list(admin_client: Client):
    assert admin_client.get(f"{JOBS}new/", {"product": ["x", "999"]}).headers["Location"] == PRODUCTS


def test_x2_only_super_admins_may_see_and_create_jobs(owner: User, products: list[Product]):
    client = Client()
    client.force_login(owner)
    for path in ("new/", "1/change/", "1/progress/", ""):
        assert client.get(f"{JOBS}{path}").status_code == 302
    for path in ("new/", "1/cancel/"):
        assert client.post(f"{JOBS}{path}", {"product": [products[0].pk], "max_words": "40"}).status_code == 302
    assert not DescriptionJob.objects.exists()
    assert not DescriptionDraft.objects.exists()
