"""Tests of the shop's GET /metrics."""

import asyncio
from datetime import timedelta

import pytest
import time_machine
from django.test import Client
from pytest_django import Settings

from commerce.analytics.aggregation.batches import aggregate_ledger
from commerce.analytics.models import LedgerEntry
from commerce.descriptions.jobs.services import DescriptionOptions, create_job
from commerce.descriptions.models import DescriptionJob
from commerce.descriptions.provider.client import ProviderError
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.catalog.factories import make_product
from tests.commerce.conftest import ApiClient, make_user
from tests.commerce.descriptions.provider.fake_server import ProviderServer
from tests.commerce.descriptions.provider.test_client import make_provider, write_text
from tests.commerce.moderation.factories import NOON, report, reporter
from tests.commerce.orders.factories import make_goods
from tests.commerce.reviews.factories import review
from tests.shared.observability.scraped import Scrape, grown


def scrape(client: Client) -> Scrape:
    answer = client.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return Scrape(answer.content.decode())


@pytest.mark.parametrize(("role", "status"), [(None, 401), *((role, 403) for role in Role if role != "SUPER_ADMIN")])
def test_o2_metrics_or_traces_need_their_permission(client_of: ApiClient, role: Role | None, status: int):
    answer = client_of(make_user(role) if role else None).get("/metrics")
    assert answer.status_code == status
    assert b"stoa_" not in answer.content


def test_o2_public_metrics_need_no_credential(client_of: ApiClient, settings: Settings):
    settings.METRICS_PUBLIC = True
    assert "# TYPE stoa_moderation_cases_waiting gauge" in scrape(client_of(None)).text


@time_machine.travel(NOON + timedelta(hours=2), tick=False)
def test_waiting_cases_are_reported_with_their_age(client_of: ApiClient, shop: Shop, admin: User, customer: User):
    spam = review(customer, make_goods(shop), 1)
    assert scrape(client_of(admin)).value("stoa_moderation_cases_waiting") == 0
    report(spam, reporter("first"))
    report(spam, reporter("second"), at=NOON + timedelta(hours=1))
    reported = scrape(client_of(admin))
    assert reported.value("stoa_moderation_cases_waiting") == 1
    assert reported.value("stoa_moderation_oldest_age_seconds") == pytest.approx(7200, abs=1)


def test_entries_that_are_not_aggregated_are_reported(client_of: ApiClient, shop: Shop, admin: User, customer: User):
    review(customer, make_goods(shop), 5)
    waiting = LedgerEntry.objects.count()
    assert waiting > 0
    assert scrape(client_of(admin)).value("stoa_analytics_entries_waiting") == waiting
    aggregate_ledger(now=NOON)
    reported = scrape(client_of(admin))
    assert (reported.value("stoa_analytics_entries_waiting"), reported.value("stoa_analytics_lag_seconds")) == (0, 0)


@time_machine.travel(NOON + timedelta(minutes=10), tick=False)
def test_open_description_jobs_are_reported_with_their_age(
    client_of: ApiClient, shop: Shop, admin: User, settings: Settings
):
    settings.CELERY_BROKER_URL = "memory://"  # no worker consumes it
    product = make_product(shop, slug="lamp", name="Lamp")
    job = create_job(author=admin, product_ids=[product.pk], options=DescriptionOptions(), now=NOON)
    reported = scrape(client_of(admin))
    assert reported.value("stoa_description_jobs_open") == 1
    assert reported.value("stoa_description_oldest_age_seconds") == pytest.approx(600, abs=1)
    DescriptionJob.objects.filter(pk=job.pk).update(state=DescriptionJob.State.CANCELLED, ended_at=NOON)
    assert scrape(client_of(admin)).value("stoa_description_jobs_open") == 0


def test_calls_of_the_provider_are_counted_by_outcome(
    client_of: ApiClient, admin: User, provider_server: ProviderServer
):
    before = scrape(client_of(admin))
    asyncio.run(write_text(make_provider(provider_server.url("good"))))
    with pytest.raises(ProviderError):
        asyncio.run(write_text(make_provider(provider_server.url("error_500"))))
    after = scrape(client_of(admin))
    named = ["stoa_provider_calls_total"]
    assert grown(after, before, named, outcome="answered") == [1]
    assert grown(after, before, named, outcome="failed") == [1]
