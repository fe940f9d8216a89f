"""The AsyncAPI document of the WebSocket."""

from collections.abc import Iterator
from typing import Any

import httpx2
import jsonschema
import pytest
from websockets.asyncio.client import connect

from tests.inference.running_server import RunningServer
from tests.inference.websocket_client import Message, receive_message, receive_until, send_messages, websocket_url

INFERENCE = {"type": "inference", "id": "a", "model": "talker", "prompt": "speak", "max_tokens": 2}


@pytest.fixture(scope="module")
def document(stoa: RunningServer) -> Any:
    answer = httpx2.get(f"{stoa.url}/asyncapi.json", timeout=30)
    assert answer.status_code == 200
    return answer.json()


def objects_in(value: Any, path: str = "#") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict):
        yield path, value
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, part in items:
        yield from objects_in(part, f"{path}/{name}")


def resolve(document: Any, reference: str) -> Any:
    found = document
    for name in reference.removeprefix("#/").split("/"):
        found = found[name]
    return found


def payload_errors(document: Any, sender: str, message: Message) -> list[str]:
    """Return how a message differs from the payload schema of its type; `sender` is client or server."""
    name = "authenticated" if (sender, message["type"]) == ("server", "auth") else message["type"]
    schema = document["components"]["messages"][name]["payload"] | {"components": document["components"]}
    return [f"{name}: {error.message}" for error in jsonschema.Draft202012Validator(schema).iter_errors(message)]


def test_the_document_describes_this_server(document: Any, stoa: RunningServer):
    assert document["asyncapi"] == "3.0.0"
    assert document["info"]["version"] == stoa.get("/health").json()["version"]
    assert document["servers"]["this"]["host"] == stoa.url.removeprefix("http://")
    assert document["servers"]["this"]["protocol"] == "ws"
    [channel] = document["channels"].values()
    assert channel["address"] == "/ws"


def test_every_reference_of_the_document_resolves(document: Any):
    references = [part["$ref"] for _, part in objects_in(document) if "$ref" in part]
    assert len(references) > 40
    for reference in references:
        assert isinstance(resolve(document, reference), dict)


def test_every_message_is_sent_or_received_by_an_operation(document: Any):
    [channel] = document["channels"].values()
    used = set()
    for operation in document["operations"].values():
        assert operation["action"] == "receive"
        used |= {one["$ref"].rpartition("/")[2] for one in [*operation["messages"], *operation["reply"]["messages"]]}
    assert used == set(channel["messages"]) == set(document["components"]["messages"])


def test_every_schema_is_a_valid_json_schema(document: Any):
    for schema in document["components"]["schemas"].values():
        jsonschema.Draft7Validator.check_schema(schema)
        jsonschema.Draft202012Validator.check_schema(schema)


def test_every_field_of_a_message_is_described(document: Any):
    schemas = document["components"]["schemas"]
    fields = {(name, field): one for name in schemas for field, one in schemas[name].get("properties", {}).items()}
    assert len(fields) > 50
    assert [key for key, schema in fields.items() if "description" not in schema] == []


def test_every_message_has_texts_and_examples_that_match_its_schema(document: Any):
    for message in document["components"]["messages"].values():
        assert message["title"]
        assert message["summary"].endswith(".")
        assert message["examples"]
        schema = message["payload"] | {"components": document["components"]}
        for example in message["examples"]:
            jsonschema.Draft202012Validator(schema).validate(example["payload"])


async def test_the_messages_of_a_session_match_their_schemas(stoa: RunningServer, document: Any):
    sent: list[Message] = [
        {"type": "auth", "token": stoa.keys["STAFF"]},
        INFERENCE | {"temperature": 0.5, "stop": ["."], "seed": 7},
        INFERENCE | {"id": "b", "n": 2, "stream": False},
        INFERENCE | {"id": "c", "n": 2},
        {name: value for name, value in INFERENCE.items() if name != "prompt"}
        | {"id": "d", "messages": [{"role": "user", "content": "speak"}]},
        INFERENCE | {"id": "e", "model": "nobody"},
        INFERENCE | {"id": "f", "max_tokens": 4000},
        {"type": "cancel", "id": "f"},
        {"type": "cancel", "id": "unknown"},
        {"type": "ping", "at": 17},
    ]
    assert [error for message in sent for error in payload_errors(document, "client", message)] == []

    async with connect(websocket_url(stoa)) as client:
        await send_messages(client, sent[0])
        received = [await receive_message(client)]
        for message in sent[1:6]:
            await send_messages(client, message)
            received += await receive_until(client, "complete", "error")
        await send_messages(client, *sent[6:8])
        received += await receive_until(client, "complete")
        for message in sent[8:]:
            await send_messages(client, message)
            received.append(await receive_message(client))

    assert {message["type"] for message in received} == {"auth", "token", "complete", "error", "pong"}
    assert [error for message in received for error in payload_errors(document, "server", message)] == []


@pytest.mark.parametrize(
    "message",
    [
        {"type": "auth"},
        {"type": "auth", "token": "a", "user": "b"},
        {"type": "cancel", "id": ""},
        INFERENCE | {"temperature": 3},
        INFERENCE | {"messages": [{"role": "user", "content": "speak"}]},
        {"type": "inference", "id": "a", "model": "talker"},
    ],
)
def test_the_schemas_refuse_what_the_server_refuses(document: Any, message: Message):
    assert payload_errors(document, "client", message) != []
