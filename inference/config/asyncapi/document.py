"""The AsyncAPI 3.0 document of the WebSocket, made from its message structs.

GET /asyncapi.json serves it, to everybody, as GET /openapi.json serves the document of the HTTP operations.
"""

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any

import msgspec
from django.conf import settings
from django.http import HttpRequest, JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_safe

from inference.config.asyncapi.texts import INTRODUCTION, MESSAGES, OPERATIONS
from inference.config.openapi.fields import complete_sent_fields, describe_tags, merge_null_types
from inference.protocol.native.websocket import CLIENT_MESSAGES
from shared.api.openapi import FieldExamples
from shared.serving.server.websocket_protocol import MAX_MESSAGE_BYTES

CHANNEL = "generation"
MESSAGE_REFERENCE = f"#/channels/{CHANNEL}/messages/{{name}}"


@csrf_exempt  # other methods are answered with 405, not with an error about CSRF
@require_safe
async def asyncapi_document(request: HttpRequest) -> JsonResponse:
    """Return the document for the address that the request was sent to."""
    server = {
        "host": request.get_host(),
        "protocol": "wss" if request.is_secure() else "ws",
        "description": "This server.",
    }
    return JsonResponse(_document() | {"servers": {"this": server}})


@cache
def _document() -> dict[str, Any]:
    references, schemas = msgspec.json.schema_components(MESSAGES, ref_template="#/components/schemas/{name}")
    _complete_schemas(references, schemas)
    messages = {
        message.name: {
            "name": message.name,
            "title": message.title,
            "summary": message.summary,
            "payload": reference,
            "examples": [{"payload": example} for example in message.examples],
        }
        for reference, message in zip(references, MESSAGES.values(), strict=True)
    }
    return {
        "asyncapi": "3.0.0",
        "info": {"title": "Stoa inference WebSocket", "version": settings.VERSION, "description": INTRODUCTION},
        "defaultContentType": "application/json",
        "channels": {
            CHANNEL: {
                "address": "/ws",
                "title": "Text generation",
                "description": "Inferences and their tokens.",
                "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
                "bindings": {"ws": {"method": "GET", "bindingVersion": "0.1.0"}},
            }
        },
        "operations": {
            name: {
                "action": "receive",
                "channel": {"$ref": f"#/channels/{CHANNEL}"},
                "summary": messages[client_message]["summary"],
                "description": description,
                "messages": [{"$ref": MESSAGE_REFERENCE.format(name=client_message)}],
                "reply": {
                    "channel": {"$ref": f"#/channels/{CHANNEL}"},
                    "messages": [{"$ref": MESSAGE_REFERENCE.format(name=reply)} for reply in replies],
                },
            }
            for name, (client_message, replies, description) in OPERATIONS.items()
        },
        "components": {"messages": messages, "schemas": schemas},
    }


def _complete_schemas(references: Sequence[dict[str, Any]], schemas: dict[str, Any]) -> None:
    """Add what the structs do not say, in place: examples and the limits of a message."""
    for schema in schemas.values():
        schema.pop("description", None)  # the docstring of its struct
    describe_tags(schemas)
    schemas["InferenceMessage"]["oneOf"] = [{"required": ["prompt"]}, {"required": ["messages"]}]
    merge_null_types(schemas)
    examples = FieldExamples(schemas)
    for (struct, message), reference in zip(MESSAGES.items(), references, strict=True):
        for example in message.examples:
            examples.add(reference, example)
        if struct in CLIENT_MESSAGES:
            complete_sent_fields(reference, schemas, max_body_bytes=MAX_MESSAGE_BYTES)
    for part in _objects_in(schemas):
        if isinstance(part.get("discriminator"), dict):
            del part["discriminator"]  # OpenAPI's; AsyncAPI's is a field's name, and the union says the same
        for field in part.get("properties", {}).values():
            if "example" in field:
                field.setdefault("examples", [field.pop("example")])


def _objects_in(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, dict):
        yield value
    for part in value.values() if isinstance(value, dict) else value if isinstance(value, list) else ():
        yield from _objects_in(part)
