"""The Model Context Protocol of a running server: through its official client, and as bare messages."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import pytest
from jsonschema import Draft202012Validator
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from mcp_types import CallToolResult

from inference.access.requests import heavy_request_slot
from inference.compat.mcp.tools import submit_batch
from inference.protocol.mcp.tools import BatchPrompt, SubmitBatchArguments
from shared.accounts.authentication import Principal
from shared.accounts.models import User
from tests.inference.running_server import RunningServer

pytestmark = pytest.mark.asyncio
TOOLS = [
    "generate_text", "embed_texts", "rerank_documents", "submit_batch", "get_batch", "get_batch_results",
    "cancel_batch",
]  # fmt: skip
MODES = ("auto", "legacy")


@asynccontextmanager
async def connect(stoa: RunningServer, role: str = "STAFF", mode: str = "auto") -> AsyncIterator[Client]:
    async with (
        httpx2.AsyncClient(headers=stoa.headers(role), timeout=60) as http,
        Client(streamable_http_client(f"{stoa.url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


async def call(stoa: RunningServer, tool: str, arguments: dict[str, Any], role: str = "STAFF") -> CallToolResult:
    """Return the result of one call. A client cannot be a fixture: it must be left in the task that entered it."""
    async with connect(stoa, role) as client:
        return await client.call_tool(tool, arguments)


def message(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


@pytest.mark.parametrize("mode", MODES)
async def test_a_client_of_either_era_lists_and_calls_tools(stoa: RunningServer, mode: str):
    async with connect(stoa, mode=mode) as client:
        tools = (await client.list_tools()).tools
        result = await client.call_tool(
            "generate_text", {"model": "talker", "prompt": "Hello", "max_tokens": 3, "temperature": 0}
        )

    assert [tool.name for tool in tools] == TOOLS
    for tool in tools:
        for schema in (tool.input_schema, tool.output_schema):
            Draft202012Validator.check_schema(schema)
            assert schema["type"] == "object"
            assert "#/components" not in json.dumps(schema)
    assert not result.is_error
    assert result.structured_content["text"] == "w0 w1 w2 "
    assert result.structured_content["finish_reason"] == "length"
    assert json.loads(result.content[0].text) == result.structured_content


async def test_tools_embed_and_rerank_as_the_routes_do(stoa: RunningServer):
    texts = ["a warm lamp", "a kettle"]
    embedded = await call(stoa, "embed_texts", {"model": "embedder", "texts": texts})
    ranked = await call(stoa, "rerank_documents", {"model": "embedder", "query": texts[0], "documents": texts})

    route = stoa.post("/embeddings", {"model": "embedder", "input": texts}).json()
    assert embedded.structured_content["vectors"] == [one["embedding"] for one in route["data"]]
    assert embedded.structured_content["usage"] == route["usage"]
    route = stoa.post("/rerank", {"model": "embedder", "query": texts[0], "documents": texts}).json()
    assert [(one["index"], one["relevance_score"]) for one in ranked.structured_content["results"]] == [
        (one["index"], one["relevance_score"]) for one in route["results"]
    ]
    assert ranked.structured_content["results"][0]["text"] == texts[0]


async def test_a_batch_is_submitted_read_and_cancelled(stoa: RunningServer):
    requests = [{"id": "a", "prompt": "Hello"}, {"id": "b", "prompt": "Hello", "system": "Be kind."}]
    accepted = await call(stoa, "submit_batch", {"model": "talker", "requests": requests, "max_tokens": 3})
    batch = {"batch_id": accepted.structured_content["batch_id"]}
    status = await call(stoa, "get_batch", batch)
    results = await call(stoa, "get_batch_results", batch)
    cancelled = await call(stoa, "cancel_batch", batch)

    assert accepted.structured_content["total_requests"] == 2
    assert status.structured_content["status"] == "processing"
    assert results.structured_content["results"] == []
    assert cancelled.structured_content["status"] == "cancelled"
    assert stoa.get(f"/batch/{batch['batch_id']}", "STAFF").json()["status"] == "cancelled"
    foreign = await call(stoa, "get_batch", batch, "STORE_OWNER")
    assert foreign.is_error
    assert "or it is not yours" in foreign.content[0].text


async def test_a_batch_waits_for_its_users_slot_as_on_its_route():
    caller = Principal(user=User(pk=1), permissions=frozenset())
    arguments = SubmitBatchArguments(model="talker", requests=[BatchPrompt(id="a", prompt="Hello")])
    async with heavy_request_slot(caller):
        submitting = asyncio.create_task(submit_batch(caller, arguments))
        done, _ = await asyncio.wait([submitting], timeout=0.3)
        submitting.cancel()

    assert not done


async def test_models_are_resources(stoa: RunningServer):
    async with connect(stoa) as client:
        resources = {str(one.uri): one for one in (await client.list_resources()).resources}
        contents = (await client.read_resource("stoa://models/talker")).contents
        for uri in ("stoa://models/nobody", "stoa://models/", "stoa://models/..%2Ftalker", "file:///etc/passwd"):
            with pytest.raises(MCPError, match="There is no resource"):
                await client.read_resource(uri)

    assert {"stoa://models/talker", "stoa://models/embedder", "stoa://models/idle"} <= resources.keys()
    assert resources["stoa://models/talker"].description == "Model for text-generation; loaded."
    listed = {one["id"]: one for one in stoa.get("/models").json()["models"]}
    assert json.loads(contents[0].text)["capabilities"] == listed["talker"]["capabilities"]


@pytest.mark.parametrize(
    ("tool", "arguments", "reason"),
    [
        ("generate_text", {}, "`model` is required"),
        ("generate_text", {"model": "talker", "prompt": "Hello", "max_tokens": -1}, "`max_tokens` must be"),
        ("generate_text", {"model": "talker", "prompt": "Hello", "max_tokens": 10**30}, "`max_tokens`"),
        ("generate_text", {"model": "talker", "prompt": ["Hello"]}, "`prompt` is not valid"),
        ("generate_text", {"model": "talker", "prompt": "Hello", "colour": 1}, "`colour` is not a field"),
        ("generate_text", {"model": "talker", "prompt": "a", "raw": True, "system": "b"}, "`system` needs"),
        ("generate_text", {"model": "talker", "prompt": "a", "json_schema": []}, "`json_schema` is not valid"),
        ("generate_text", {"model": "nobody", "prompt": "Hello"}, "nobody"),
        ("generate_text", {"model": "idle", "prompt": "Hello"}, "not loaded"),
        ("generate_text", {"model": "embedder", "prompt": "Hello"}, "talker"),
        ("embed_texts", {"model": "embedder", "texts": []}, "`texts`"),
        ("embed_texts", {"model": "embedder", "texts": ["a"] * 129}, "`texts`"),
        ("embed_texts", {"model": "embedder", "texts": ["a"], "dimensions": 10**6}, "`dimensions` must be at most"),
        ("rerank_documents", {"model": "talker", "query": "a", "documents": ["b"]}, "embedder"),
        ("rerank_documents", {"model": "embedder", "query": "", "documents": ["b"]}, "`query`"),
        ("submit_batch", {"model": "talker", "requests": [{"id": "a", "prompt": "b"}] * 2}, "must be unique"),
        ("submit_batch", {"model": "nobody", "requests": [{"id": "a", "prompt": "b"}]}, "nobody"),
        ("get_batch", {"batch_id": "nobody"}, "There is no batch"),
        ("get_batch_results", {"batch_id": "nobody", "limit": 0}, "`limit`"),
    ],
)
async def test_p6_absurd_arguments_are_an_error_result(
    stoa: RunningServer, tool: str, arguments: dict[str, Any], reason: str
):
    result = await call(stoa, tool, arguments)
    assert result.is_error
    assert reason in result.content[0].text


async def test_an_unknown_tool_or_method_is_an_error_of_the_protocol(stoa: RunningServer):
    with pytest.RaisesGroup(pytest.RaisesExc(MCPError, match="There is no tool"), flatten_subgroups=True):
        await call(stoa, "search_products", {"query": "lamp"})
    unknown = stoa.post("/mcp", message("lamps/list"), "STAFF")
    assert (unknown.json()["id"], unknown.json()["error"]["code"]) == (7, -32601)


async def test_p6_foreign_origins_and_missing_rights_are_refused(stoa: RunningServer):
    call = message("tools/list")

    def send(role: str | None = "STAFF", **headers: str) -> httpx2.Response:
        key = stoa.headers(role) if role else {}
        return httpx2.post(f"{stoa.url}/mcp", json=call, headers=key | headers, timeout=30)

    host = stoa.url.removeprefix("http://")
    assert send(Origin=f"http://{host}").status_code == 200
    for origin in ("https://evil.example", "null", f"http://evil.example@{host}", f"{host}", "http://["):
        assert send(Origin=origin).status_code == 403, origin
    assert send(None, Origin="https://evil.example").status_code == 403
    assert send(None).status_code == 401
    assert send("CUSTOMER").status_code == 403
    assert send("READER").status_code == 403
    call["id"] = 7.0  # an integer to us, and so to the SDK
    assert send().json()["id"] == 7
    error = send("READER").json()
    assert error["jsonrpc"] == "2.0"
    assert error["id"] is None
    assert error["error"]["code"] == -32600
    assert error["error"]["data"] == {"code": "AUTHORIZATION_FAILED"}


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"[]", "JSON object"),
        (b"{", "not valid JSON"),
        (b"{}", "`jsonrpc` is required"),
        (b'{"jsonrpc": "1.0", "method": "ping", "id": 1}', "`jsonrpc`"),
        (b'{"jsonrpc": "2.0", "method": 3, "id": 1}', "`method`"),
        (b'{"jsonrpc": "2.0", "method": "ping", "id": {}}', "`id`"),
        (b'{"jsonrpc": "2.0", "method": "ping", "id": 1, "params": []}', "`params`"),
        (b'{"jsonrpc": "2.0", "result": {}, "id": 1}', "`method` is required"),
        (b'{"jsonrpc": "2.0", "method": "ping", "id": 1, "params": ' + b'{"a":' * 100_000 + b"}" * 100_000 + b"}", ""),
    ],
    ids=lambda value: value[:40] if isinstance(value, bytes) else value,
)
async def test_a_message_that_is_none_is_an_error_of_json_rpc(stoa: RunningServer, body: bytes, reason: str):
    headers = stoa.headers("STAFF") | {"Content-Type": "application/json"}
    refused = httpx2.post(f"{stoa.url}/mcp", content=body, headers=headers, timeout=30)
    assert refused.status_code == 400
    assert reason in refused.json()["error"]["message"]


async def test_a_body_above_the_limit_is_413(stoa: RunningServer):
    refused = stoa.post("/mcp", message("ping", text="x" * (50 * 1024 * 1024)), "STAFF")
    assert refused.status_code == 413
    assert refused.json()["error"]["code"] == -32600


async def test_headers_that_the_protocol_refuses_are_errors_of_json_rpc(stoa: RunningServer):
    for headers in ({"Accept": "text/html"}, {"MCP-Protocol-Version": "1999-01-01"}):
        url, key = f"{stoa.url}/mcp", stoa.headers("STAFF")
        refused = httpx2.post(url, json=message("ping"), headers=key | headers, timeout=30)
        assert 400 <= refused.status_code < 500, headers
        assert refused.json()["error"]["message"]


async def test_a_notification_is_accepted(stoa: RunningServer):
    accepted = stoa.post("/mcp", {"jsonrpc": "2.0", "method": "notifications/initialized"}, "STAFF")
    assert (accepted.status_code, accepted.content) == (202, b"")


async def test_usage_counts_a_call_once(stoa: RunningServer):
    def used() -> tuple[int, int]:
        total = stoa.get("/usage", role="STAFF").json()["total"]
        return total["requests"], total["completion_tokens"]

    before = used()
    arguments = {"name": "generate_text", "arguments": {"model": "talker", "prompt": "Hello", "max_tokens": 3}}
    sent = stoa.post("/mcp", message("tools/call", **arguments), "STAFF")
    assert not sent.json()["result"]["isError"]
    assert used() == (before[0] + 1, before[1] + 3)
