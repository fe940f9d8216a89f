"""Tests of the description writer's stream."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.test import AsyncClient
from pytest_django import Settings

from commerce.catalog.models import Product
from commerce.descriptions.models import DescriptionDraft, QuotaUsage
from commerce.shops.models import Shop
from shared.accounts.models import User
from tests.commerce.catalog.factories import make_product
from tests.commerce.descriptions.drafts import SAMPLE_TEXT
from tests.commerce.descriptions.provider.fake_server import ProviderServer

WRITE = "/admin/commerce_descriptions/descriptiondraft/write"
OPTIONS = {"tone": "friendly", "max_words": "40", "language": "en", "keywords": "warm light, , brass"}

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
async def _close_connections() -> AsyncIterator[None]:
    """Close the connection of the thread in which coroutines use the database."""
    yield
    await sync_to_async(connections.close_all)()


@pytest.fixture
def product(shop: Shop) -> Product:
    return make_product(shop, description="As it was.")


@pytest.fixture
async def admin_client(admin: User) -> AsyncClient:
    client = AsyncClient()
    await client.aforce_login(admin)
    return client


async def write(admin_client: AsyncClient, product: Product) -> Any:
    return await admin_client.post(f"{WRITE}/{product.pk}/", OPTIONS)


async def read_events(response: Any) -> list[dict[str, Any]]:
    lines = b"".join([part async for part in response.streaming_content]).decode().split("\n\n")
    return [json.loads(line.removeprefix("data: ")) for line in lines if line]


async def test_product_form_streams_a_description_and_saves_a_draft(
    admin_client: AsyncClient, admin: User, product: Product, provider_server: ProviderServer, settings: Settings
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("good")
    settings.DESCRIPTIONS_PER_DAY = 10
    response = await write(admin_client, product)
    events = await read_events(response)

    assert response.headers["Content-Type"] == "text/event-stream"
    assert [event["text"] for event in events[:-1]] == [" The", " Velmo", " lamp", " glows."]
    draft = await DescriptionDraft.objects.aget()
    assert events[-1] == {
        "done": True, "description": SAMPLE_TEXT, "draft_id": draft.pk, "left": 9, "unchecked": True,
    }  # fmt: skip
    assert (draft.author_id, draft.tone, draft.max_words) == (admin.pk, "friendly", 40)
    assert draft.keywords == ["warm light", "brass"]
    assert provider_server.requests[0]["messages"][1]["content"] == (
        "Write a product description.\nProduct name: Velmo lamp\nKeywords: warm light, brass\nTone: friendly\n"
        "Length: short (40 words)"
    )
    assert (await QuotaUsage.objects.aget()).shop_id == product.shop_id


@pytest.mark.parametrize("behavior", ["truncated", "error_event"])
async def test_incomplete_description_is_not_saved(
    admin_client: AsyncClient, product: Product, settings: Settings, provider_server: ProviderServer, behavior: str
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url(behavior)
    events = await read_events(await write(admin_client, product))

    assert list(events[-1]) == ["error"]
    assert not await DescriptionDraft.objects.aexists()
    assert (await QuotaUsage.objects.aget()).used == 0


async def test_exceeded_quota_gets_a_message_and_the_form_shows_the_rest(
    admin_client: AsyncClient, product: Product, settings: Settings, provider_server: ProviderServer
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("good")
    settings.DESCRIPTIONS_PER_DAY = 1
    path = f"/admin/commerce_catalog/product/{product.pk}/change/"
    assert "1 left today" in (await admin_client.get(path)).content.decode()
    await read_events(await write(admin_client, product))
    response = await write(admin_client, product)

    assert response.status_code == 429
    assert "midnight UTC" in response.json()["message"]
    assert "0 left today" in (await admin_client.get(path)).content.decode()
