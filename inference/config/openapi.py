"""The OpenAPI page of the plain async views, made from what each `operation` declares and from its wire structs."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import msgspec
from django.urls import URLPattern, URLResolver, get_resolver

from inference.access.operations import Operation
from inference.access.versioning import HEADER
from inference.config.examples import ANSWERS, REQUESTS
from inference.protocol.native.errors import ErrorResponse
from inference.protocol.openai.errors import OpenAIErrorResponse
from shared.api.idempotency.store import MAX_KEY_LENGTH
from shared.serving.asgi.wrapper import PROBE_PATHS

REF = "#/components/schemas/{name}"
SECURITY_SCHEMES = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "An access token, or an API key (stoa_...)."},
    "apiKey": {"type": "apiKey", "in": "header", "name": "X-API-Key"},
}
IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "The same request with the same key is answered again, and not done again. Not for streams.",
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY_LENGTH, "pattern": "^[ -~]+$"},
}
RATE_LIMIT_HEADERS = {
    "X-RateLimit-Limit": "What may come in a minute.",
    "X-RateLimit-Remaining": "What is left of it.",
    "X-RateLimit-Reset": "When there is more: Unix time.",
    "X-RateLimit-Reset-After": "The same in seconds from now.",
}
_PARAMETER = re.compile(r"<(?:[^<:>]+:)?([^<>]+)>")

Schemas = dict[Any, dict[str, Any]]


def add_operations(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """A drf-spectacular post-processing hook: puts every operation of this project into the schema."""
    operations = list(_operations(get_resolver(), ""))
    types: list[Any] = [ErrorResponse, OpenAIErrorResponse]
    for _, declared in operations:
        named = (declared.body, declared.response, *declared.events)
        types += [kind for kind in named if kind is not None and kind not in types]
    schemas, components = msgspec.json.schema_components(types, ref_template=REF)
    by_type: Schemas = dict(zip(types, schemas, strict=True))
    for path, declared in operations:
        result["paths"].setdefault(path, {})[declared.method.lower()] = _described(path, declared, by_type)
    result.setdefault("components", {}).setdefault("schemas", {}).update(components)
    result["components"].setdefault("securitySchemes", {}).update(SECURITY_SCHEMES)
    return result


def _operations(resolver: URLResolver, prefix: str) -> Iterator[tuple[str, Operation]]:
    for pattern in resolver.url_patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _operations(pattern, route)
        elif isinstance(pattern, URLPattern):
            path = "/" + _PARAMETER.sub(r"{\1}", route.removeprefix("^/").lstrip("/"))
            for declared in getattr(pattern.callback, "operations", ()):
                yield path, declared


def _described(path: str, declared: Operation, schemas: Schemas) -> dict[str, Any]:
    error = schemas[OpenAIErrorResponse if path.startswith("/v1/") else ErrorResponse]
    described: dict[str, Any] = {
        "operationId": f"{declared.method.lower()}_{re.sub(r'[^a-z0-9]+', '_', path.lower()).strip('_')}",
        "summary": declared.docs.summary,
        "description": inspect.cleandoc(declared.docs.description),
        "tags": ["openai" if path.startswith("/v1/") else "native"],
        "parameters": [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}
            for name in re.findall(r"{(\w+)}", path)
        ]
        + _query_parameters(declared)
        + ([IDEMPOTENCY_KEY] if declared.idempotent and declared.response else []),
        "responses": {"200": _answer(path, declared, schemas)},
        "security": [{name: []} for name in SECURITY_SCHEMES] if declared.permission else [{}],
    }
    for status, meaning in _error_statuses(declared, path).items():
        described["responses"][status] = {"description": meaning, "content": {"application/json": {"schema": error}}}
    if declared.body is not None:
        described["requestBody"] = {
            "required": declared.body_required,
            "content": {"application/json": {"schema": schemas[declared.body]} | _request_examples(path, declared)},
        }
    if declared.form_schema is not None:
        described["requestBody"] = {
            "required": True,
            "content": {"multipart/form-data": {"schema": declared.form_schema}},
        }
    return described


def _query_parameters(declared: Operation) -> list[dict[str, Any]]:
    if declared.query is None:
        return []
    described = msgspec.json.schema(declared.query)["$defs"][declared.query.__name__]
    return [
        {"name": name, "in": "query", "required": name in described.get("required", ()), "schema": _in_query(schema)}
        for name, schema in described["properties"].items()
    ]


def _in_query(schema: dict[str, Any]) -> dict[str, Any]:
    """Nothing is null in a query: it is left out."""
    kinds = [kind for kind in schema.get("anyOf", ()) if kind != {"type": "null"}]
    if kinds:
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    return {**schema, "enum": [one for one in schema["enum"] if one is not None]} if "enum" in schema else schema


def _request_examples(path: str, declared: Operation) -> dict[str, Any]:
    bodies = REQUESTS.get(f"{declared.method} {path}", REQUESTS.get(path, {}))
    return {"examples": {name: {"value": body} for name, body in bodies.items()}} if bodies else {}


def _answer(path: str, declared: Operation, schemas: Schemas) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if declared.response is not None:
        answer = ANSWERS.get(f"{declared.method} {path}", ANSWERS.get(path))
        example = {} if answer is None else {"example": answer}
        content["application/json"] = {"schema": schemas[declared.response]} | example
    if declared.events:
        content["text/event-stream"] = {"schema": _event(path, [schemas[kind] for kind in declared.events])}
    if declared.content_type is not None:
        content[declared.content_type] = {"schema": {"type": "string", "format": "binary"}}
    headers: dict[str, Any] = {HEADER: {"schema": {"type": "string"}}}
    if path not in PROBE_PATHS:
        for name, meaning in RATE_LIMIT_HEADERS.items():
            headers[name] = {"description": meaning, "schema": {"type": "integer"}}
    return {"description": "Success.", "headers": headers, "content": content}


def _event(path: str, kinds: list[dict[str, Any]]) -> dict[str, Any]:
    """One event of a stream: OpenAPI 3.1 has no word for the stream as a whole."""
    data: dict[str, Any] = {"type": "string", "contentMediaType": "application/json", "contentSchema": {"anyOf": kinds}}
    if path.startswith("/v1/"):
        data = {"anyOf": [data, {"const": "[DONE]"}]}
    return {"type": "object", "properties": {"data": data}, "required": ["data"]}


def _error_statuses(declared: Operation, path: str) -> dict[str, str]:
    meanings = {"400": "The request is wrong; the message says where.", "500": "Something failed on our side."}
    if declared.permission:
        meanings |= {"401": "No valid key or token.", "403": "The key or token may not do this."}
    else:
        meanings |= {"401": "The credentials are wrong."} if declared.body else {}
    if declared.body or declared.query or "{" in path:
        meanings["404"] = "What the path, the query or the body names is not there."
    if declared.body or declared.form_schema:
        meanings |= {"413": "The body is too large.", "415": "The body is of another type."}
    if declared.idempotent:
        meanings["409"] = "A request with this Idempotency-Key still runs."
    if path not in PROBE_PATHS:
        meanings["429"] = "Too many requests or tokens: wait as Retry-After says."
    meanings["503"] = "Not now: try again as Retry-After says."
    return meanings
