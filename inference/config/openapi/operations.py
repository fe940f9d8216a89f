"""The operations of the OpenAPI document, made from their declarations and from their wire structs."""

import inspect
import re
from collections.abc import Iterator
from typing import Any

import msgspec
from django.conf import settings
from django.urls import URLPattern, URLResolver, get_resolver

from inference.access.operations import Operation
from inference.access.versioning import HEADER
from inference.config.errors import is_under
from inference.config.openapi import common_texts
from inference.config.openapi.fields import complete_sent_fields, describe_tags, merge_null_types
from inference.protocol.anthropic.errors import AnthropicErrorResponse
from inference.protocol.mcp.messages import McpErrorResponse
from inference.protocol.native.errors import ErrorResponse
from inference.protocol.ollama.models import OllamaErrorResponse
from inference.protocol.openai.errors import OpenAIErrorResponse
from inference.protocol.scoring.errors import CohereErrorResponse
from shared.api.idempotency.store import MAX_KEY_LENGTH
from shared.api.openapi import FieldExamples
from shared.serving.asgi.wrapper import PROBE_PATHS

IDEMPOTENCY_KEY = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "A key of your choice, of up to 255 printable ASCII characters. If the same request is sent again "
    "with the same key within a day, nothing is done and the first response is returned. A stream goes on when its "
    "client disconnects, and is sent again from its beginning or from `Last-Event-ID`.",
    "schema": {"type": "string", "minLength": 1, "maxLength": MAX_KEY_LENGTH, "pattern": "^[ -~]+$"},
    "example": "0f8fad5b-d9cb-469f-a165-70867728950e",
}
LAST_EVENT_ID = {
    "name": "Last-Event-ID",
    "in": "header",
    "description": "Only with `Idempotency-Key`, for a stream: number of the last event that you have. The same "
    "request sends the rest. With a key events have their number as `id`, from 0; those of a response have it in "
    "`sequence_number`.",
    "schema": {"type": "integer", "minimum": 0, "maximum": 999_999_999},
    "example": 41,
}
# Forms of errors by the beginnings of paths; the first that fits.
_ERROR_TYPES: dict[str, Any] = {
    "/v1/messages": AnthropicErrorResponse,
    "/v1": OpenAIErrorResponse,
    "/v2": CohereErrorResponse,
    "/api": OllamaErrorResponse,
    "/mcp": McpErrorResponse,
}
REF_TEMPLATE = "#/components/schemas/{name}"
_PARAMETER = re.compile(r"<(?:[^<:>]+:)?([^<>]+)>")

Schemas = dict[Any, dict[str, Any]]


def add_operations(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Add every operation of this project. A drf-spectacular post-processing hook."""
    operations = list(_find_operations(get_resolver(), ""))
    types: list[Any] = [ErrorResponse, *_ERROR_TYPES.values()]
    for _, operation in operations:
        declared = (operation.body, operation.query, operation.response, *operation.events)
        types += [kind for kind in declared if kind is not None and kind not in types]
    references, components = msgspec.json.schema_components(types, ref_template=REF_TEMPLATE)
    for component in components.values():
        component.pop("description", None)  # the docstring of its wire struct
    merge_null_types(components)
    describe_tags(components)
    schemas: Schemas = dict(zip(types, references, strict=True))
    queries: dict[Any, dict[str, Any]] = {
        query: components.pop(query.__name__)
        for query in dict.fromkeys(operation.query for _, operation in operations if operation.query)
    }
    for path, operation in operations:
        described = _describe(path, operation, schemas, queries.get(operation.query, {}))
        result["paths"].setdefault(path, {})[operation.method.lower()] = described
    document_components = result.setdefault("components", {})
    document_components.setdefault("schemas", {}).update(components)
    document_components.setdefault("securitySchemes", {}).update(common_texts.SECURITY_SCHEMES)
    _complete_fields(operations, schemas, components)
    return result


def _find_operations(resolver: URLResolver, prefix: str) -> Iterator[tuple[str, Operation]]:
    for pattern in resolver.url_patterns:
        route = prefix + str(pattern.pattern)
        if isinstance(pattern, URLResolver):
            yield from _find_operations(pattern, route)
        elif isinstance(pattern, URLPattern):
            path = "/" + _PARAMETER.sub(r"{\1}", route.removeprefix("^/").lstrip("/"))
            for operation in getattr(pattern.callback, "operations", ()):
                yield path, operation


def _describe(path: str, operation: Operation, schemas: Schemas, query: dict[str, Any]) -> dict[str, Any]:
    error = schemas[_error_type(path)]
    described: dict[str, Any] = {
        "operationId": f"{operation.method.lower()}_{re.sub(r'[^a-z0-9]+', '_', path.lower()).strip('_')}",
        "summary": operation.docs.summary,
        "description": inspect.cleandoc(operation.docs.description),
        "tags": ["openai" if path.startswith("/v1/") else "native"],
        "parameters": [
            {"name": name, "in": "path", "required": True, **common_texts.PATH_PARAMETERS[name]}
            for name in re.findall(r"{(\w+)}", path)
        ]
        + list(_query_parameters(query))
        + ([IDEMPOTENCY_KEY] if operation.idempotent else [])
        + ([LAST_EVENT_ID] if operation.idempotent and operation.events else []),
        "responses": {"200": _success(path, operation, schemas)},
        "security": [{name: []} for name in common_texts.SECURITY_SCHEMES] if operation.permission else [{}],
    }
    for status, meaning in sorted(_errors(operation, path).items()):
        described["responses"][status] = {"description": meaning, "content": {"application/json": {"schema": error}}}
    if operation.body is not None:
        examples = {name: {"value": body} for name, body in operation.docs.request_examples.items()}
        content = {"schema": schemas[operation.body]} | ({"examples": examples} if examples else {})
        described["requestBody"] = {"required": operation.body_required, "content": {"application/json": content}}
    if operation.form_schema is not None:
        described["requestBody"] = {
            "required": True,
            "content": {"multipart/form-data": {"schema": operation.form_schema}},
        }
    return described


def _query_parameters(query: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for name, field in query.get("properties", {}).items():
        field = _without_null(field)
        examples = field.pop("examples", [])
        yield {
            "name": name,
            "in": "query",
            "required": name in query.get("required", ()),
            "description": field.pop("description", ""),
            "schema": field,
            **({"example": examples[0]} if examples else {}),
        }


def _without_null(field: dict[str, Any]) -> dict[str, Any]:
    """Return the schema of a query parameter, which is left out where a field of a body would be null."""
    field = dict(field)
    if isinstance(field.get("type"), list):
        [field["type"]] = [name for name in field["type"] if name != "null"]
    if "enum" in field:
        field["enum"] = [value for value in field["enum"] if value is not None]
    if "anyOf" in field:
        [kind] = [kind for kind in field.pop("anyOf") if kind != {"type": "null"}]
        field |= kind
    if field.get("default", "") is None:
        del field["default"]
    return field


def _success(path: str, operation: Operation, schemas: Schemas) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if operation.response is not None:
        example = operation.docs.response_example
        content["application/json"] = {"schema": schemas[operation.response]} | (
            {"example": example} if example else {}
        )
    if operation.events:
        content["text/event-stream"] = {"schema": _event(path, operation, schemas)}
    if operation.content_type is not None:
        content[operation.content_type] = {"schema": {"type": "string", "format": "binary"}}
    limits = {} if path in PROBE_PATHS else common_texts.RATE_LIMIT_HEADERS
    return {"description": "Success.", "headers": {HEADER: common_texts.VERSION_HEADER, **limits}, "content": content}


def _event(path: str, operation: Operation, schemas: Schemas) -> dict[str, Any]:
    """Return the schema of one event: OpenAPI 3.1 cannot describe a stream as a whole."""
    kinds = [schemas[kind] for kind in operation.events]
    data: dict[str, Any] = {"type": "string", "contentMediaType": "application/json", "contentSchema": {"anyOf": kinds}}
    ends_with_done = _error_type(path) is OpenAIErrorResponse
    if ends_with_done:
        data = {"anyOf": [data, {"const": "[DONE]"}]}
    data["description"] = "One JSON object, or `[DONE]` at the end." if ends_with_done else "One JSON object."
    data["example"] = msgspec.json.encode(operation.docs.event_example).decode()
    return {"type": "object", "properties": {"data": data}, "required": ["data"]}


def _error_type(path: str) -> Any:
    return next((kind for prefix, kind in _ERROR_TYPES.items() if is_under(path, prefix)), ErrorResponse)


def _errors(operation: Operation, path: str) -> dict[str, str]:
    """Return the descriptions of an operation's errors by status."""
    errors = dict(common_texts.COMMON_ERRORS)
    if operation.permission:
        errors |= common_texts.AUTHENTICATED_ERRORS
    elif operation.body:
        errors |= common_texts.SIGN_IN_ERRORS
    if operation.body or operation.query or "{" in path:
        errors |= common_texts.NOT_FOUND_ERRORS
    if operation.body or operation.form_schema:
        errors |= common_texts.BODY_ERRORS
    if operation.idempotent:
        errors |= common_texts.IDEMPOTENCY_ERRORS
    if path not in PROBE_PATHS:
        errors |= common_texts.RATE_LIMIT_ERRORS
    return errors


def _complete_fields(
    operations: list[tuple[str, Operation]], schemas: Schemas, components: dict[str, dict[str, Any]]
) -> None:
    """Add examples of fields from the examples of bodies, and to sent fields the bounds that a body's size implies."""
    examples = FieldExamples(components)
    for _, operation in operations:
        if operation.body:
            for body in operation.docs.request_examples.values():
                examples.add(schemas[operation.body], body)
            complete_sent_fields(schemas[operation.body], components, max_body_bytes=settings.MAX_BODY_BYTES)
        if operation.response and operation.docs.response_example:
            examples.add(schemas[operation.response], operation.docs.response_example)
