"""Tests of the daily quota of descriptions."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client
from pytest_django import Settings

from commerce.catalog.models import Product
from commerce.descriptions import quotas
from commerce.descriptions.models import QuotaUsage
from commerce.descriptions.quotas import QuotaExceeded, QuotaOwner
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.catalog.factories import make_product
from tests.commerce.conftest import ApiClient, make_user
from tests.commerce.descriptions.provider.fake_server import ProviderServer

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LAMP = {"product_name": "Velmo lamp"}

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _provider(settings: Settings, provider_server: ProviderServer) -> None:
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("good")
    settings.DESCRIPTIONS_PER_DAY = 2


@pytest.fixture
def product(shop: Shop) -> Product:
    return make_product(shop)


def generate(client: Client, **body: Any) -> Any:
    return client.post("/api/generate-descriptions", LAMP | body, content_type="application/json")


def read_quota(client: Client, **query: Any) -> Any:
    return client.get("/api/description-allowance", query).json()


def test_request_over_the_quota_gets_429_without_a_provider_call(
    client_of: ApiClient, staff: User, provider_server: ProviderServer
):
    client = client_of(staff)
    assert [generate(client).status_code for _ in range(2)] == [200, 200]
    response = generate(client)

    assert (response.status_code, response.json()["code"]) == (429, "allowance_spent")
    assert response.json()["message"].startswith("This shop has 0 of its 2 descriptions left for today.")
    assert 0 < int(response.headers["Retry-After"]) <= 24 * 60 * 60
    assert len(provider_server.requests) == 2
    quota = read_quota(client)
    assert (quota["limit"], quota["used"], quota["left"]) == (2, 2, 0)
    assert quota["resets_at"].endswith("T00:00:00.000000Z")


def test_users_of_a_shop_share_its_quota(client_of: ApiClient, owner: User, staff: User, product: Product):
    other = make_product(Shop.objects.create(owner=owner, name="Second", slug="second"), slug="other-lamp")
    assert generate(client_of(staff)).status_code == 200
    assert generate(client_of(owner), product_id=product.pk).status_code == 200
    assert generate(client_of(owner)).status_code == 429
    assert generate(client_of(owner), product_id=other.pk).status_code == 200

    assert read_quota(client_of(owner), product_id=other.pk)["used"] == 1
    assert read_quota(client_of(staff))["used"] == 2
    foreign = client_of(staff).get("/api/description-allowance", {"product_id": other.pk})
    assert foreign.status_code == 404


def test_user_without_a_shop_has_a_quota(client_of: ApiClient, product: Product):
    ann, bob = make_user(Role.STORE_OWNER, "ann"), make_user(Role.STORE_OWNER, "bob")
    assert [generate(client_of(ann)).status_code for _ in range(3)] == [200, 200, 429]
    assert generate(client_of(bob)).status_code == 200


@pytest.mark.parametrize("behavior", ["error_500", "refusal_400", "truncated", "wordless"])
def test_failure_is_refunded(
    client_of: ApiClient, staff: User, settings: Settings, provider_server: ProviderServer, behavior: str
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url(behavior)
    for _ in range(3):
        assert generate(client_of(staff)).json()["code"] == "ai_provider_error"

    assert QuotaUsage.objects.get().used == 0
    assert read_quota(client_of(staff))["left"] == 2


def test_text_of_markup_only_fails_and_is_refunded(client_of: ApiClient, staff: User, provider_server: ProviderServer):
    provider_server.texts = ["<br> <hr/> \u202e"]

    assert generate(client_of(staff)).json()["code"] == "ai_provider_error"
    assert QuotaUsage.objects.get().used == 0


def test_quota_resets_at_midnight_utc(shop: Shop, settings: Settings):
    quota_owner = QuotaOwner(shop_id=shop.pk)
    before_midnight = datetime(2026, 3, 1, 23, 59, 59, tzinfo=UTC)
    quotas.charge(owner=quota_owner, now=before_midnight, count=2)
    with pytest.raises(QuotaExceeded) as raised:
        quotas.charge(owner=quota_owner, now=before_midnight)
    usage_id = quotas.charge(owner=quota_owner, now=before_midnight + timedelta(seconds=1))

    assert raised.value.problem.headers == {"Retry-After": "1"}
    assert quotas.get_status(owner=quota_owner, now=before_midnight).used == 2
    quotas.refund(usage_id)
    assert quotas.get_status(owner=quota_owner, now=before_midnight + timedelta(seconds=1)).used == 0


def test_request_over_the_rest_charges_nothing(shop: Shop):
    quota_owner = QuotaOwner(shop_id=shop.pk)
    quotas.charge(owner=quota_owner, now=NOON)
    with pytest.raises(QuotaExceeded, match="1 of its 2 descriptions left"):
        quotas.charge(owner=quota_owner, now=NOON, count=2)

    assert quotas.get_status(owner=quota_owner, now=NOON).left == 1


def test_zero_means_no_limit(client_of: ApiClient, staff: User, settings: Settings):
    settings.DESCRIPTIONS_PER_DAY = 0
    assert [generate(client_of(staff)).status_code for _ in range(3)] == [200, 200, 200]
    quota = read_quota(client_of(staff))
    assert (quota["limit"], quota["used"], quota["left"]) == (None, 3, None)


def test_constraints_hold_for_one_row_per_owner_and_day(shop: Shop, owner: User):
    day = NOON.date()
    QuotaUsage.objects.create(day=day, shop=shop)
    for values in ({"shop": shop}, {}, {"shop": shop, "user": owner, "day": day + timedelta(days=1)}):
        with pytest.raises(IntegrityError), transaction.atomic():
            QuotaUsage.objects.create(**{"day": day} | values)


@pytest.mark.django_db(transaction=True)
def test_twenty_concurrent_requests_get_exactly_the_quota(shop: Shop, settings: Settings):
    settings.DESCRIPTIONS_PER_DAY = 7
    barrier = threading.Barrier(20)

    def charge(_: int) -> bool:
        barrier.wait(timeout=60)
        try:
            quotas.charge(owner=QuotaOwner(shop_id=shop.pk), now=NOON)
        except QuotaExceeded:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(20) as pool:
        assert sum(pool.map(charge, range(20))) == 7
    assert QuotaUsage.objects.get().used == 7
