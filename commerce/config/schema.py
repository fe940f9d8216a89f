"""What every operation of the OpenAPI page has beside its own answer: the errors."""

from typing import Any

from shared.api.converters import LARGEST_ID

SLUG = "^[-a-zA-Z0-9_]+$"
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
    "400": "The request cannot be understood: its head, its address, or a body that is no JSON object.",
    "404": "There is no such thing, or it is not yours.",
    "406": "Another form was asked for than is answered here.",
    "429": "Too many requests; Retry-After says when to come again.",
    "500": "Something went wrong on our side, or (ai_provider_error) on the text provider's.",
    "503": "Not just now; Retry-After says when to come again.",
}
WITH_CREDENTIAL = {
    "401": "The credentials are missing or refused.",
    "403": "Your role may not do this.",
}
# Of those that need no credential, some refuse the one that is in their body.
OWN = {
    "sign_in": {"401": "The e-mail or the password is wrong."},
    "refresh_tokens": {"401": "The token is not valid, or was used."},
    "register": {"403": "Only customers and store owners register themselves."},
}
WITH_WRITE = {"409": "It is there already, or its state does not allow this."}
WITH_QUERY = {"422": "A part of the query is out of bounds."}
WITH_BODY = {
    "413": "The body is too large.",
    "415": "The body is of another type.",
    "422": "A field, or a part of the query, is missing or out of bounds.",
}


def add_errors(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """A drf-spectacular post-processing hook: documents the errors that each operation can answer."""
    result.setdefault("components", {}).setdefault("schemas", {})["Error"] = ERROR
    for operations in result["paths"].values():
        for method, operation in operations.items():
            _bound_the_path(operation)
            for status, meaning in sorted(_errors(method, operation).items()):
                described = {"description": meaning, "content": {"application/json": {"schema": REF}}}
                operation["responses"].setdefault(status, described)
    return result


def _errors(method: str, operation: dict[str, Any]) -> dict[str, str]:
    """What can go wrong, and what it means, by status."""
    errors = ALWAYS | OWN.get(operation["operationId"], {})
    if any(operation.get("security", ())):
        errors |= WITH_CREDENTIAL
    if method != "get":
        errors |= WITH_WRITE
    if any(parameter["in"] != "path" for parameter in operation.get("parameters", ())):
        errors |= WITH_QUERY
    return errors | (WITH_BODY if "requestBody" in operation else {})


def _bound_the_path(operation: dict[str, Any]) -> None:
    """Says of what stands in a path what the routes ask of it."""
    for parameter in operation.get("parameters", ()):
        if parameter["in"] == "path":
            is_number = parameter["schema"]["type"] == "integer"
            bounds = {"minimum": 1, "maximum": LARGEST_ID} if is_number else {"pattern": SLUG, "maxLength": 255}
            parameter["schema"] |= bounds
