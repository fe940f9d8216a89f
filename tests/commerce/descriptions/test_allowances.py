"""How many descriptions a shop may ask for in a day."""

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import IntegrityError, connection, transaction
from django.test import Client
from pytest_django import Settings

from commerce.catalog.models import Product
from commerce.descriptions import allowances
from commerce.descriptions.allowances import AllowanceSpent, Holder
from commerce.descriptions.models import Allowance
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.catalog.goods import make_product
from tests.commerce.conftest import ApiClient, make_user
from tests.commerce.descriptions.provider_server import ProviderServer

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LAMP = {"product_name": "Velmo lamp"}

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _provider(settings: Settings, provider_server: ProviderServer) -> None:
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("good")
    settings.DESCRIPTIONS_A_DAY = 2


@pytest.fixture
def product(shop: Shop) -> Product:
    return make_product(shop)


def ask(client: Client, **body: Any) -> Any:
    return client.post("/api/generate-descriptions", LAMP | body, content_type="application/json")


def left(client: Client, **query: Any) -> Any:
    return client.get("/api/description-allowance", query).json()


def test_one_more_than_the_day_allows_is_429_and_asks_no_provider(
    client_of: ApiClient, staff: User, provider_server: ProviderServer
):
    client = client_of(staff)
    assert [ask(client).status_code for _ in range(2)] == [200, 200]
    refused = ask(client)

    assert (refused.status_code, refused.json()["code"]) == (429, "allowance_spent")
    assert refused.json()["message"].startswith("Of the 2 descriptions that this shop may ask for today, 0 are left.")
    assert 0 < int(refused.headers["Retry-After"]) <= 24 * 60 * 60
    assert len(provider_server.asked) == 2
    told = left(client)
    assert (told["limit"], told["used"], told["left"]) == (2, 2, 0)
    assert told["resets_at"].endswith("T00:00:00.000000Z")


def test_a_shops_people_share_its_allowance_and_another_shop_has_its_own(
    client_of: ApiClient, owner: User, staff: User, product: Product
):
    other = make_product(Shop.objects.create(owner=owner, name="Second", slug="second"), slug="other-lamp")
    assert ask(client_of(staff)).status_code == 200
    assert ask(client_of(owner), product_id=product.pk).status_code == 200
    assert ask(client_of(owner)).status_code == 429
    assert ask(client_of(owner), product_id=other.pk).status_code == 200

    assert left(client_of(owner), product_id=other.pk)["used"] == 1
    assert left(client_of(staff))["used"] == 2
    foreign = client_of(staff).get("/api/description-allowance", {"product_id": other.pk})
    assert foreign.status_code == 404


def test_who_has_no_shop_has_an_allowance_of_their_own(client_of: ApiClient, product: Product):
    ann, bob = make_user(Role.STORE_OWNER, "ann"), make_user(Role.STORE_OWNER, "bob")
    assert [ask(client_of(ann)).status_code for _ in range(3)] == [200, 200, 429]
    assert ask(client_of(bob)).status_code == 200


@pytest.mark.parametrize("behaviour", ["error_500", "refusal_400", "cut_short", "wordless"])
def test_what_fails_is_given_back(
    client_of: ApiClient, staff: User, settings: Settings, provider_server: ProviderServer, behaviour: str
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url(behaviour)
    for _ in range(3):
        assert ask(client_of(staff)).json()["code"] == "ai_provider_error"

    assert Allowance.objects.get().used == 0
    assert left(client_of(staff))["left"] == 2


def test_a_text_of_marks_alone_is_none_and_given_back(
    client_of: ApiClient, staff: User, provider_server: ProviderServer
):
    provider_server.texts = ["<br> <hr/> \u202e"]

    assert ask(client_of(staff)).json()["code"] == "ai_provider_error"
    assert Allowance.objects.get().used == 0


def test_a_new_day_begins_at_midnight_of_utc(shop: Shop, settings: Settings):
    holder = Holder(shop_id=shop.pk)
    late = datetime(2026, 3, 1, 23, 59, 59, tzinfo=UTC)
    allowances.take(holder=holder, now=late, count=2)
    with pytest.raises(AllowanceSpent) as refused:
        allowances.take(holder=holder, now=late)
    taken = allowances.take(holder=holder, now=late + timedelta(seconds=1))

    assert refused.value.problem.headers == {"Retry-After": "1"}
    assert allowances.read(holder=holder, now=late).used == 2
    allowances.give_back(taken=taken)
    assert allowances.read(holder=holder, now=late + timedelta(seconds=1)).used == 0


def test_more_than_is_left_takes_nothing(shop: Shop):
    holder = Holder(shop_id=shop.pk)
    allowances.take(holder=holder, now=NOON)
    with pytest.raises(AllowanceSpent, match="today, 1 are left"):
        allowances.take(holder=holder, now=NOON, count=2)

    assert allowances.read(holder=holder, now=NOON).left == 1


def test_nought_is_no_limit(client_of: ApiClient, staff: User, settings: Settings):
    settings.DESCRIPTIONS_A_DAY = 0
    assert [ask(client_of(staff)).status_code for _ in range(3)] == [200, 200, 200]
    told = left(client_of(staff))
    assert (told["limit"], told["used"], told["left"]) == (None, 3, None)


def test_the_database_holds_one_row_a_holder_and_day_of_a_shop_or_a_user(shop: Shop, owner: User):
    day = NOON.date()
    Allowance.objects.create(day=day, shop=shop)
    for wrong in ({"shop": shop}, {}, {"shop": shop, "user": owner, "day": day + timedelta(days=1)}):
        with pytest.raises(IntegrityError), transaction.atomic():
            Allowance.objects.create(**{"day": day} | wrong)


@pytest.mark.django_db(transaction=True)
def test_twenty_at_once_get_exactly_what_there_is(shop: Shop, settings: Settings):
    settings.DESCRIPTIONS_A_DAY = 7
    together = threading.Barrier(20)

    def take(_: int) -> bool:
        together.wait(timeout=60)
        try:
            allowances.take(holder=Holder(shop_id=shop.pk), now=NOON)
        except AllowanceSpent:
            return False
        finally:
            connection.close()
        return True

    with ThreadPoolExecutor(20) as pool:
        assert sum(pool.map(take, range(20))) == 7
    assert Allowance.objects.get().used == 7
