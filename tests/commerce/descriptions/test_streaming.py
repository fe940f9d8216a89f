"""POST /api/generate-descriptions as a stream."""

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
from commerce.descriptions import allowances, services
from commerce.descriptions.allowances import Holder
from commerce.descriptions.models import Allowance, DescriptionDraft
from commerce.descriptions.prompts import Brief
from commerce.shops.models import Shop
from shared.accounts.models import User
from tests.commerce.catalog.goods import make_product
from tests.commerce.conftest import bearer
from tests.commerce.descriptions.provider_server import PROVIDER_SECRET, ProviderServer

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
async def _close_connections() -> AsyncIterator[None]:
    """The thread that coroutines do their look-ups in has a connection of its own."""
    yield
    await sync_to_async(connections.close_all)()


@pytest.fixture
def product(shop: Shop) -> Product:
    return make_product(shop)


@pytest.fixture
def headers(owner: User) -> dict[str, str]:
    return bearer(owner)


async def stream(headers: dict[str, str], **body: Any) -> Any:
    asked = {"product_name": "Velmo lamp", "stream": True} | body
    path = "/api/generate-descriptions"
    return await AsyncClient().post(path, asked, content_type="application/json", headers=headers)


async def events_of(answer: Any) -> list[dict[str, Any]]:
    lines = b"".join([part async for part in answer.streaming_content]).decode().split("\n\n")
    assert lines.pop() == ""
    return [json.loads(line.removeprefix("data: ")) for line in lines]


async def test_each_piece_is_an_event_and_the_last_has_the_whole(
    headers: dict[str, str], settings: Settings, provider_server: ProviderServer
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("good")
    answer = await stream(headers)

    assert answer.status_code == 200
    assert answer.headers["Content-Type"] == "text/event-stream"
    assert answer.headers["Cache-Control"] == "no-store"
    text = "The Velmo lamp glows."
    assert await events_of(answer) == [
        {"text": " The"},
        {"text": " Velmo"},
        {"text": " lamp"},
        {"text": " glows."},
        {"done": True, "description": text, "status": "success", "result": text},
    ]


async def test_the_draft_is_saved_at_the_end(
    headers: dict[str, str], product: Product, settings: Settings, provider_server: ProviderServer
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("good")
    events = await events_of(await stream(headers, product_id=product.pk))

    draft = await DescriptionDraft.objects.aget()
    assert events[-1]["draft_id"] == draft.pk
    assert (draft.text, draft.product_id) == ("The Velmo lamp glows.", product.pk)


async def test_what_comes_is_shown_without_control_characters_and_kept_as_plain_text(
    headers: dict[str, str], product: Product, settings: Settings, provider_server: ProviderServer
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("good")
    provider_server.texts = ["<b>The</b> \x1b[31mlamp **glows**.\u202e"]
    events = await events_of(await stream(headers, product_id=product.pk))

    assert "".join(event["text"] for event in events[:-1]) == " <b>The</b> [31mlamp **glows**."
    assert events[-1]["description"] == "The [31mlamp glows."
    assert (await DescriptionDraft.objects.aget()).text == "The [31mlamp glows."


async def test_a_product_that_is_deleted_meanwhile_gets_no_draft(
    headers: dict[str, str], product: Product, settings: Settings, provider_server: ProviderServer
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("good")
    answer = await stream(headers, product_id=product.pk)
    await Product.objects.filter(pk=product.pk).aupdate(deleted_at=timezone.now())
    events = await events_of(answer)

    assert events[-1]["error"]["code"] == "not_found"
    assert not await DescriptionDraft.objects.aexists()


@pytest.mark.parametrize("behaviour", ["cut_short", "error_event", "wordless", "error_500", "endless_line"])
async def test_a_stream_that_fails_does_not_count(
    headers: dict[str, str], shop: Shop, settings: Settings, provider_server: ProviderServer, behaviour: str
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url(behaviour)
    answer = await stream(headers)
    told = str(await events_of(answer)) if answer.streaming else answer.content.decode()

    assert "ai_provider_error" in told
    assert (await Allowance.objects.aget(shop=shop)).used == 0


async def test_a_stream_that_is_left_counts_once_there_was_text(
    headers: dict[str, str], shop: Shop, settings: Settings, provider_server: ProviderServer
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("endless_text")
    answer = await stream(headers)
    await asyncio.to_thread(answer.close)
    assert await provider_server.client_left()
    assert (await Allowance.objects.aget(shop=shop)).used == 1


async def test_a_client_that_leaves_while_its_allowance_is_taken_gets_it_back(
    shop: Shop, settings: Settings, provider_server: ProviderServer, monkeypatch: pytest.MonkeyPatch
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("good")
    began, go_on = threading.Event(), threading.Event()
    take = allowances.take

    def slow(**asked: Any) -> Any:
        began.set()
        assert go_on.wait(30)
        return take(**asked)

    monkeypatch.setattr(allowances, "take", slow)
    writing = services.write_description(
        brief=Brief(product_name="Velmo lamp"), holder=Holder(shop_id=shop.pk), now=timezone.now()
    )
    task = asyncio.create_task(writing)
    assert await asyncio.to_thread(began.wait, 30)
    task.cancel()
    await asyncio.sleep(0.05)
    go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert (await Allowance.objects.aget(shop=shop)).used == 0
    assert provider_server.asked == []


async def test_a_text_without_end_is_no_description(
    headers: dict[str, str],
    shop: Shop,
    settings: Settings,
    provider_server: ProviderServer,
    monkeypatch: pytest.MonkeyPatch,
):
    monkeypatch.setattr(services, "LONGEST_TEXT", 100)
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("endless_text")
    events = await events_of(await stream(headers))

    assert events[-1]["error"]["code"] == "ai_provider_error"
    assert await provider_server.client_left()
    assert (await Allowance.objects.aget(shop=shop)).used == 0


@pytest.mark.parametrize("behaviour", ["cut_short", "error_event"])
async def test_a_failure_in_mid_stream_is_one_error_event_and_the_end(
    headers: dict[str, str], product: Product, settings: Settings, provider_server: ProviderServer, behaviour: str
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url(behaviour)
    answer = await stream(headers, product_id=product.pk)
    events = await events_of(answer)

    assert answer.status_code == 200
    assert "text" in events[0]
    assert list(events[-1]) == ["error"]
    assert events[-1]["error"]["code"] == "ai_provider_error"
    assert events[-1]["error"]["request_id"] == answer.headers["X-Request-Id"]
    assert PROVIDER_SECRET not in str(events)
    assert not await DescriptionDraft.objects.aexists()


async def test_a_draft_that_cannot_be_saved_is_an_error_event_too(
    headers: dict[str, str],
    product: Product,
    settings: Settings,
    provider_server: ProviderServer,
    monkeypatch: pytest.MonkeyPatch,
):
    def stumble(**_: object) -> None:
        raise RuntimeError("canary")

    monkeypatch.setattr(services, "save_draft", stumble)
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("good")
    events = await events_of(await stream(headers, product_id=product.pk))

    assert events[-1]["error"]["code"] == "internal_error"
    assert "canary" not in str(events)


async def test_closing_the_answer_ends_the_providers_work(
    headers: dict[str, str], settings: Settings, provider_server: ProviderServer
):
    settings.DESCRIPTIONS_BASE_URL = provider_server.url("endless_text")
    answer = await stream(headers)
    await asyncio.to_thread(answer.close)

    assert await provider_server.client_left()
