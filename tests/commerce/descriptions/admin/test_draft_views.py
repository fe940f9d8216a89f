"""Tests of the description writer's views."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.test import AsyncClient, Client
from pytest_django import Settings

from commerce.catalog.models import Product
from commerce.descriptions.models import DescriptionDraft, QuotaUsage
from commerce.shops.models import Shop
from shared.accounts.models import User
from shared.accounts.roles import Role
from tests.commerce.attributes.conftest import make_attribute
from tests.commerce.catalog.factories import make_product
from tests.commerce.conftest import make_user
from tests.commerce.descriptions.drafts import make_draft
from tests.commerce.descriptions.provider.fake_server import ProviderServer

WRITE = "/admin/commerce_descriptions/descriptiondraft/write"
KEPT = (
    "Meet the Velmo lamp. It has warm light and is made of brass.",
    "This is the Velmo lamp. It is made of brass and has warm light.",
    "Here is the Velmo lamp. It has warm light. Take a look: it is made of brass.",
)
INVENTED = "Meet the Velmo lamp. It has warm light for 10 hours. Its foot is made of Oak."
CUT = "The Velmo lamp of warm light and brass, which"
OPTIONS = {"tone": "friendly", "max_words": "40", "language": "en", "keywords": "warm light, , brass"}

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.no_database]


@pytest.fixture(autouse=True)
async def _close_connections() -> AsyncIterator[None]:
    """Close the connection of the thread in which coroutines use the database."""
    yield
    await sync_to_async(connections.close_all)()


@pytest.fixture
def product(shop: Shop) -> Product:
    return make_product(shop, description="As it was.")


def add_value(product: Product, attribute: str, value: str) -> None:
    made = make_attribute(product.shop, attribute, values=[{"value": value, "meta": ""}])
    product.attribute_values.set(made.values.all())


@pytest.fixture
async def admin_client(admin: User) -> AsyncClient:
    client = AsyncClient()
    await client.aforce_login(admin)
    return client


async def write(admin_client: AsyncClient, product: Product) -> Any:
    return await admin_client.post(f"{WRITE}/{product.pk}/", OPTIONS)


async def test_three_variants_are_written_at_once_and_saved_as_drafts(
    admin_client: AsyncClient, admin: User, product: Product, provider_server: ProviderServer, settings: Settings
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("several")
    settings.DESCRIPTIONS_PER_DAY = 10
    provider_server.texts = [*KEPT, CUT]
    body = (await write(admin_client, product)).json()

    saved = [draft async for draft in DescriptionDraft.objects.order_by("-pk")]
    assert [draft.text for draft in saved] == [KEPT[0], KEPT[1], KEPT[2]]
    assert [variant["draft_id"] for variant in body["variants"]] == [draft.pk for draft in saved]
    assert body["variants"][0] == {
        "draft_id": saved[0].pk, "parts": [[KEPT[0], False]], "unsupported": [], "missing": [], "is_fallback": False,
    }  # fmt: skip
    assert {(draft.author_id, draft.tone, draft.max_words) for draft in saved} == {(admin.pk, "friendly", 40)}
    assert saved[0].keywords == ["warm light", "brass"]
    assert len(provider_server.requests) == 1
    assert body["left"] == 9
    assert (await QuotaUsage.objects.aget()).shop_id == product.shop_id


async def test_the_page_shows_what_the_writer_was_told(
    admin_client: AsyncClient, product: Product, provider_server: ProviderServer, settings: Settings
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("several")
    provider_server.texts = [*KEPT, CUT]
    told = (await write(admin_client, product)).json()["told"]

    assert told == "\n".join(message["content"] for message in provider_server.requests[0]["messages"])
    assert told == (
        "You write product descriptions for an online shop.\nWrite a product description.\nProduct name: Velmo lamp\n"
        "Keywords: brass, warm light\nTone: friendly\nLength: short (40 words)"
    )


async def test_what_is_not_in_the_products_data_is_marked(
    admin_client: AsyncClient, product: Product, provider_server: ProviderServer, settings: Settings
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("several")
    provider_server.texts = [INVENTED, KEPT[0], CUT]
    kept, invented = (await write(admin_client, product)).json()["variants"]

    assert (kept["parts"], kept["unsupported"]) == ([[KEPT[0], False]], [])
    assert [text for text, is_marked in invented["parts"] if is_marked] == ["10 hours", "Oak"]
    assert "".join(text for text, _ in invented["parts"]) == INVENTED
    assert invented["unsupported"] == ["oak", "10 hours"]
    assert invented["missing"] == ["brass"]


async def test_an_attribute_of_the_product_is_not_marked(
    admin_client: AsyncClient, product: Product, provider_server: ProviderServer, settings: Settings
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("several")
    provider_server.texts = [INVENTED, KEPT[0], CUT]
    await sync_to_async(add_value)(product, "Material", "oak")
    _, invented = (await write(admin_client, product)).json()["variants"]

    assert invented["unsupported"] == ["10 hours"]


async def test_without_a_text_that_keeps_to_the_facts_the_first_variant_only_states_them(
    admin_client: AsyncClient, product: Product, provider_server: ProviderServer, settings: Settings
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("several")
    provider_server.texts = [INVENTED, CUT]
    variants = (await write(admin_client, product)).json()["variants"]

    texts = ["".join(text for text, _ in variant["parts"]) for variant in variants]
    assert texts == ["Velmo lamp: warm light, brass.", INVENTED]
    assert [variant["is_fallback"] for variant in variants] == [True, False]


@pytest.mark.parametrize("behavior", ["truncated", "error_event", "error_500", "wordless"])
async def test_a_failed_draft_is_not_saved_and_not_charged(
    admin_client: AsyncClient, product: Product, settings: Settings, provider_server: ProviderServer, behavior: str
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url(behavior)
    response = await write(admin_client, product)

    assert response.status_code == 500
    assert response.json() == {"message": "The text provider did not return a description. Try again."}
    assert not await DescriptionDraft.objects.aexists()
    assert (await QuotaUsage.objects.aget()).used == 0


@pytest.mark.django_db  # the audit log of a committed decision could not be deleted
def test_using_a_variant_discards_the_others(admin: User, product: Product):
    used, other, kept = (make_draft(product, admin, text) for text in ("One.", "Two.", "Three."))
    path = f"/admin/commerce_descriptions/descriptiondraft/{used.pk}/use/"
    moderator, client = Client(), Client()
    moderator.force_login(make_user(Role.MODERATOR))
    client.force_login(admin)

    assert moderator.post(path, {"text": "Mine.", "other": [kept.pk]}).status_code == 404
    response = client.post(path, {"text": "One, edited.", "other": [other.pk, "x"]})

    assert response.json() == {"description": "One, edited."}
    states = dict(DescriptionDraft.objects.values_list("pk", "state"))
    assert states == {used.pk: "accepted", other.pk: "discarded", kept.pk: "open"}


async def test_exceeded_quota_gets_a_message_and_the_form_shows_the_rest(
    admin_client: AsyncClient, product: Product, settings: Settings, provider_server: ProviderServer
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("good")
    settings.DESCRIPTIONS_PER_DAY = 1
    path = f"/admin/commerce_catalog/product/{product.pk}/change/"
    assert "1 left today" in (await admin_client.get(path)).content.decode()
    assert (await write(admin_client, product)).status_code == 200
    response = await write(admin_client, product)

    assert response.status_code == 429
    assert "midnight UTC" in response.json()["message"]
    assert "0 left today" in (await admin_client.get(path)).content.decode()
