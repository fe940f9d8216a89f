"""What the product form in the admin asks for, as it streams."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.test import AsyncClient
from pytest_django import Settings

from commerce.catalog.models import Product
from commerce.descriptions.models import Allowance, DescriptionDraft
from commerce.shops.models import Shop
from shared.accounts.models import User
from tests.commerce.catalog.goods import make_product
from tests.commerce.descriptions.provider_server import ProviderServer
from tests.commerce.descriptions.writing import GLOWS

WRITE = "/admin/commerce_descriptions/descriptiondraft/write"
WISHES = {"tone": "friendly", "max_words": "40", "language": "en", "keywords": "warm light, , brass"}

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
async def _close_connections() -> AsyncIterator[None]:
    """The thread that coroutines do their look-ups in has a connection of its own."""
    yield
    await sync_to_async(connections.close_all)()


@pytest.fixture
def product(shop: Shop) -> Product:
    return make_product(shop, description="As it was.")


@pytest.fixture
async def desk(admin: User) -> AsyncClient:
    client = AsyncClient()
    await client.aforce_login(admin)
    return client


async def write(desk: AsyncClient, product: Product) -> Any:
    return await desk.post(f"{WRITE}/{product.pk}/", WISHES)


async def events_of(answer: Any) -> list[dict[str, Any]]:
    lines = b"".join([part async for part in answer.streaming_content]).decode().split("\n\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines if line]


async def test_the_product_form_streams_a_description_and_keeps_it_as_a_draft(
    desk: AsyncClient, admin: User, product: Product, provider_server: ProviderServer, settings: Settings
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("good")
    settings.DESCRIPTIONS_A_DAY = 10
    answer = await write(desk, product)
    events = await events_of(answer)

    assert answer.headers["Content-Type"] == "text/event-stream"
    assert [event["text"] for event in events[:-1]] == [" The", " Velmo", " lamp", " glows."]
    draft = await DescriptionDraft.objects.aget()
    assert events[-1] == {"done": True, "description": GLOWS, "draft_id": draft.pk, "left": 9}
    assert (draft.author_id, draft.tone, draft.max_words) == (admin.pk, "friendly", 40)
    assert draft.keywords == ["warm light", "brass"]
    assert provider_server.asked[0]["messages"][1]["content"] == (
        "Write a product description.\nProduct name: Velmo lamp\nKeywords: warm light, brass\nTone: friendly\n"
        "Length: short (40 words)"
    )
    assert (await Allowance.objects.aget()).shop_id == product.shop_id


@pytest.mark.parametrize("behaviour", ["cut_short", "error_event"])
async def test_half_a_description_is_no_draft(
    desk: AsyncClient, product: Product, settings: Settings, provider_server: ProviderServer, behaviour: str
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url(behaviour)
    events = await events_of(await write(desk, product))

    assert list(events[-1]) == ["error"]
    assert not await DescriptionDraft.objects.aexists()
    assert (await Allowance.objects.aget()).used == 0


async def test_a_spent_allowance_is_told_and_the_form_shows_what_is_left(
    desk: AsyncClient, product: Product, settings: Settings, provider_server: ProviderServer
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("good")
    settings.DESCRIPTIONS_A_DAY = 1
    page = f"/admin/commerce_catalog/product/{product.pk}/change/"
    assert "1 left today" in (await desk.get(page)).content.decode()
    await events_of(await write(desk, product))
    refused = await write(desk, product)

    assert refused.status_code == 429
    assert "midnight UTC" in refused.json()["message"]
    assert "0 left today" in (await desk.get(page)).content.decode()
