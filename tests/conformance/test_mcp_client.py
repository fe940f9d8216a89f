"""The official MCP client against the model server: real models, real batches and the real shop."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.running_stoa import RunningStoa

PROMPT = "Write a product description.\nProduct name: Quellmar Kettle\nKeywords: quiet"
TEXTS = ["the quiet kettle boils", "a warm lamp of brass and oak", "a chair for the garden"]


@asynccontextmanager
async def connect(stoa: RunningStoa, mode: str = "auto") -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers=stoa.headers(), timeout=60) as http,
        Client(streamable_http_client(f"{stoa.inference_url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


async def call(client: Client, tool: str, **arguments: Any) -> Any:
    result = await client.call_tool(tool, arguments)
    assert not result.is_error, result.content
    return result.structured_content


async def generate_embed_and_rerank(stoa: RunningStoa, mode: str) -> None:
    async with connect(stoa, mode) as client:
        text = await call(client, "generate_text", model="stoa-describer", prompt=PROMPT, temperature=0, max_tokens=60)
        schema = {
            "type": "object",
            "properties": {"good": {"type": "boolean"}},
            "required": ["good"],
            "additionalProperties": False,
        }
        answer = await call(
            client, "generate_text", model="stoa-describer", prompt=PROMPT, json_schema=schema, max_tokens=40
        )
        vectors = await call(client, "embed_texts", model="stoa-encoder", texts=TEXTS)
        query = "a warm lamp of brass"
        ranked = await call(client, "rerank_documents", model="stoa-encoder", query=query, documents=TEXTS)

    assert "Quellmar" in text["text"]
    assert text["usage"]["completion_tokens"] > 0
    assert isinstance(json.loads(answer["text"])["good"], bool)
    assert len(vectors["vectors"]) == 3
    assert ranked["results"][0]["index"] == 1


def test_the_client_generates_embeds_and_reranks_in_both_eras_of_the_protocol(stoa: RunningStoa):
    for mode in ("auto", "legacy"):
        asyncio.run(generate_embed_and_rerank(stoa, mode))


def test_a_batch_runs_to_its_results(stoa: RunningStoa):
    async def run() -> Any:
        async with connect(stoa) as client:
            requests = [{"id": str(number), "prompt": PROMPT} for number in range(3)]
            accepted = await call(client, "submit_batch", model="stoa-describer", requests=requests, max_tokens=10)
            batch_id, deadline = accepted["batch_id"], time.monotonic() + 60
            while (await call(client, "get_batch", batch_id=batch_id))["status"] == "processing":
                assert time.monotonic() < deadline
                await asyncio.sleep(0.3)
            return await call(client, "get_batch_results", batch_id=batch_id, limit=2)

    page = asyncio.run(run())
    assert (page["batch"]["status"], page["batch"]["completed"]) == ("completed", 3)
    assert [(one["id"], one["status"], one["error"]) for one in page["results"]] == [
        ("0", "completed", None),
        ("1", "completed", None),
    ]
    assert page["results"][0]["answer"]["choices"][0]["text"]
    assert page["next"] == 1


def test_the_shops_products_are_found(stoa: RunningStoa):
    async def run() -> Any:
        async with connect(stoa) as client:
            return await call(client, "search_products", query=name, limit=3)

    listed = httpx2.get(f"{stoa.commerce_url}/api/products?limit=1", timeout=30).json()["data"][0]
    name = listed["name"]
    deadline = time.monotonic() + 30  # the worker indexes new products every few seconds
    found = asyncio.run(run())
    while name not in [one["name"] for one in found["products"]]:
        assert time.monotonic() < deadline, found
        time.sleep(1)
        found = asyncio.run(run())
    assert len(found["products"]) <= 3


def test_models_are_resources(stoa: RunningStoa):
    async def run() -> tuple[list[str], Any]:
        async with connect(stoa) as client:
            resources = (await client.list_resources()).resources
            [content] = (await client.read_resource("stoa://models/stoa-describer")).contents
            return [str(one.uri) for one in resources], json.loads(content.text)

    uris, model = asyncio.run(run())
    assert {"stoa://models/stoa-describer", "stoa://models/stoa-encoder"} <= set(uris)
    assert (model["loaded"], model["capabilities"]) == (True, ["text-generation"])
