"""What every operation of the OpenAPI page has beside its own answer: the errors."""

from typing import Any

REF = {"$ref": "#/components/schemas/Error"}
FIELDS = {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "string"}}}
ERROR = {
    "type": "object",
    "required": ["message", "code", "request_id"],
    "properties": {
        "message": {"type": "string", "description": "For people: what is wrong and what to do."},
        "code": {"type": "string", "description": "For programs, as in not_authenticated."},
        "request_id": {"type": "string"},
        "errors": FIELDS | {"description": "Only with 422: what is wrong with each field."},
    },
}
ALWAYS = {
    "401": "The credentials are missing or refused.",
    "403": "Your role may not do this.",
    "404": "There is no such thing, or it is not yours.",
    "429": "Too many requests; Retry-After says when to come again.",
    "500": "Something went wrong on our side, or (ai_provider_error) on the text provider's.",
    "503": "Not just now; Retry-After says when to come again.",
}
WITH_BODY = {
    "400": "The body is no JSON object.",
    "413": "The body is too large.",
    "415": "The body is of another type.",
    "422": "A field is missing or out of bounds.",
}


def add_errors(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """A drf-spectacular post-processing hook: documents the errors that each operation can answer."""
    result.setdefault("components", {}).setdefault("schemas", {})["Error"] = ERROR
    for operations in result["paths"].values():
        for operation in operations.values():
            statuses = ALWAYS | (WITH_BODY if "requestBody" in operation else {})
            for status, meaning in sorted(statuses.items()):
                described = {"description": meaning, "content": {"application/json": {"schema": REF}}}
                operation["responses"].setdefault(status, described)
    return result
