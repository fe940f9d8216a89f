"""Tests of POST /api/generate-descriptions as a stream."""

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.db import connections
from django.test import AsyncClient
from django.utils import timezone
from pytest_django import Settings

from commerce.catalog.models import Product
from commerce.descriptions import quotas, services
from commerce.descriptions.models import DescriptionDraft, QuotaUsage
from commerce.descriptions.quotas import QuotaOwner
from commerce.descriptions.text.prompts import DescriptionRequest
from commerce.shops.models import Shop
from shared.accounts.models import User
from tests.commerce.catalog.factories import make_product
from tests.commerce.conftest import bearer
from tests.commerce.descriptions.provider.fake_server import PROVIDER_SECRET, ProviderServer

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.no_database]


@pytest.fixture(autouse=True)
async def _close_connections() -> AsyncIterator[None]:
    """Close the connection of the thread in which coroutines use the database."""
    yield
    await sync_to_async(connections.close_all)()


@pytest.fixture
def product(shop: Shop) -> Product:
    return make_product(shop)


@pytest.fixture
def headers(owner: User) -> dict[str, str]:
    return bearer(owner)


async def stream(headers: dict[str, str], **body: Any) -> Any:
    data = {"prompt": "Introduce the Velmo lamp.", "stream": True} | body
    path = "/api/generate-descriptions"
    return await AsyncClient().post(path, data, content_type="application/json", headers=headers)


async def read_events(response: Any) -> list[dict[str, Any]]:
    lines = b"".join([part async for part in response.streaming_content]).decode().split("\n\n")
    assert lines.pop() == ""
    return [json.loads(line.removeprefix("data: ")) for line in lines]


async def test_each_piece_is_an_event_and_the_last_has_the_whole_text(
    headers: dict[str, str], settings: Settings, provider_server: ProviderServer
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("good")
    response = await stream(headers)

    assert response.status_code == 200
    assert response.headers["Content-Type"] == "text/event-stream"
    assert response.headers["Cache-Control"] == "no-store"
    text = "The Velmo lamp glows."
    assert await read_events(response) == [
        {"text": " The"},
        {"text": " Velmo"},
        {"text": " lamp"},
        {"text": " glows."},
        {"done": True, "description": text, "status": "success", "result": text, "unchecked": True},
    ]


async def test_a_checked_text_is_streamed_sentence_by_sentence(
    headers: dict[str, str], settings: Settings, provider_server: ProviderServer
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("good")
    text = "Meet the Velmo lamp! It glows, e.g. at night. Why not try it?"
    provider_server.texts = ["The lamp.", text]

    events = await read_events(await stream(headers, product_name="Velmo lamp"))

    sentences = ["Meet the Velmo lamp!", " It glows, e.g.", " at night.", " Why not try it?"]
    assert [event["text"] for event in events[:-1]] == sentences
    assert events[-1] == {"done": True, "description": text, "status": "success", "result": text}


async def test_a_streamed_statement_of_the_facts_is_marked(
    headers: dict[str, str], product: Product, settings: Settings, provider_server: ProviderServer
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("good")
    body = {"product_name": "Velmo lamp", "keywords": ["5 W"], "product_id": product.pk}
    events = await read_events(await stream(headers, **body))

    draft = await DescriptionDraft.objects.aget()
    assert (draft.text, draft.is_fallback) == ("Velmo lamp: 5 W.", True)
    assert events == [
        {"text": draft.text},
        {"done": True, "description": draft.text, "status": "success", "result": draft.text, "fallback": True}
        | {"draft_id": draft.pk},
    ]


async def test_draft_is_saved_at_the_end(
    headers: dict[str, str], product: Product, settings: Settings, provider_server: ProviderServer
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("good")
    events = await read_events(await stream(headers, product_id=product.pk))

    draft = await DescriptionDraft.objects.aget()
    assert events[-1]["draft_id"] == draft.pk
    assert (draft.text, draft.product_id) == ("The Velmo lamp glows.", product.pk)


async def test_pieces_have_no_control_characters_and_the_draft_is_plain_text(
    headers: dict[str, str], product: Product, settings: Settings, provider_server: ProviderServer
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("good")
    provider_server.texts = ["<b>The</b> \x1b[31mlamp **glows**.\u202e"]
    events = await read_events(await stream(headers, product_id=product.pk))

    assert "".join(event["text"] for event in events[:-1]) == " <b>The</b> [31mlamp **glows**."
    assert events[-1]["description"] == "The [31mlamp glows."
    assert (await DescriptionDraft.objects.aget()).text == "The [31mlamp glows."


async def test_product_deleted_during_the_stream_gets_no_draft(
    headers: dict[str, str], product: Product, settings: Settings, provider_server: ProviderServer
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("good")
    response = await stream(headers, product_id=product.pk)
    await Product.objects.filter(pk=product.pk).aupdate(deleted_at=timezone.now())
    events = await read_events(response)

    assert events[-1]["error"]["code"] == "not_found"
    assert not await DescriptionDraft.objects.aexists()


@pytest.mark.parametrize("behavior", ["truncated", "error_event", "wordless", "error_500", "endless_line"])
async def test_failed_stream_is_refunded(
    headers: dict[str, str], shop: Shop, settings: Settings, provider_server: ProviderServer, behavior: str
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url(behavior)
    response = await stream(headers)
    body = str(await read_events(response)) if response.streaming else response.content.decode()

    assert "ai_provider_error" in body
    assert (await QuotaUsage.objects.aget(shop=shop)).used == 0


async def test_disconnect_after_the_first_piece_stops_the_provider_and_is_charged(
    headers: dict[str, str], shop: Shop, settings: Settings, provider_server: ProviderServer
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("endless_text")
    response = await stream(headers)
    await asyncio.to_thread(response.close)
    assert await provider_server.client_disconnected()
    assert (await QuotaUsage.objects.aget(shop=shop)).used == 1


async def test_disconnect_while_the_quota_is_charged_is_refunded(
    shop: Shop, settings: Settings, provider_server: ProviderServer, monkeypatch: pytest.MonkeyPatch
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("good")
    started, resumed = threading.Event(), threading.Event()
    charge = quotas.charge

    def slow_charge(**kwargs: Any) -> Any:
        started.set()
        assert resumed.wait(30)
        return charge(**kwargs)

    monkeypatch.setattr(quotas, "charge", slow_charge)
    writing = services.write_description(
        request=DescriptionRequest(product_name="Velmo lamp"), owner=QuotaOwner(shop_id=shop.pk), now=timezone.now()
    )
    task = asyncio.create_task(writing)
    assert await asyncio.to_thread(started.wait, 30)
    task.cancel()
    await asyncio.sleep(0.05)
    resumed.set()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (await QuotaUsage.objects.aget(shop=shop)).used == 0
    assert provider_server.requests == []


async def test_overlong_text_fails(
    headers: dict[str, str],
    shop: Shop,
    settings: Settings,
    provider_server: ProviderServer,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(services, "MAX_DESCRIPTION_LENGTH", 100)
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("endless_text")
    events = await read_events(await stream(headers))

    assert events[-1]["error"]["code"] == "ai_provider_error"
    assert await provider_server.client_disconnected()
    assert (await QuotaUsage.objects.aget(shop=shop)).used == 0


@pytest.mark.parametrize("behavior", ["truncated", "error_event"])
async def test_failure_during_the_stream_is_one_final_error_event(
    headers: dict[str, str], product: Product, settings: Settings, provider_server: ProviderServer, behavior: str
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url(behavior)
    response = await stream(headers, product_id=product.pk)
    events = await read_events(response)

    assert response.status_code == 200
    assert "text" in events[0]
    assert list(events[-1]) == ["error"]
    assert events[-1]["error"]["code"] == "ai_provider_error"
    assert events[-1]["error"]["request_id"] == response.headers["X-Request-Id"]
    assert PROVIDER_SECRET not in str(events)
    assert not await DescriptionDraft.objects.aexists()


async def test_failure_to_save_the_draft_is_an_error_event(
    headers: dict[str, str],
    product: Product,
    settings: Settings,
    provider_server: ProviderServer,
    monkeypatch: pytest.MonkeyPatch,
):
    def fail(**_: object) -> None:
        raise RuntimeError("canary")

    monkeypatch.setattr(services, "save_draft", fail)
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("good")
    events = await read_events(await stream(headers, product_id=product.pk))

    assert events[-1]["error"]["code"] == "internal_error"
    assert "canary" not in str(events)
