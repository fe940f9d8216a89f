"""Error responses, which are the same for all operations of a kind."""

from typing import Any

ERROR_REF = {"$ref": "#/components/schemas/Error"}
ERROR_SCHEMA = {
    "type": "object",
    "description": "The body of every error.",
    "required": ["message", "code", "request_id"],
    "properties": {
        "message": {
            "type": "string",
            "description": "What is wrong and what to do, in English.",
            "example": "Sign in, or send a valid API key.",
        },
        "code": {
            "type": "string",
            "description": "Name of the error for programs.",
            "example": "not_authenticated",
        },
        "request_id": {
            "type": "string",
            "description": "Id of the request in the server's log; also in the `X-Request-Id` header.",
            "example": "req_9f86d081884c7d659a2feaa0",
        },
        "errors": {
            "type": "object",
            "description": "Only with 422: the messages for each invalid field.",
            "additionalProperties": {"type": "array", "items": {"type": "string"}},
            "example": {"name": ["This field is required."]},
        },
    },
}
COMMON_ERRORS = {
    "400": "The request is malformed: its headers, its path, or a body that is not a JSON object.",
    "404": "The object does not exist, or you may not see it.",
    "406": "The server cannot produce a media type of the Accept header.",
    "429": "Too many requests. `Retry-After` says when to try again.",
    "500": "An error of the server or, with the code `ai_provider_error`, of the text provider.",
    "503": "The service is temporarily unavailable. `Retry-After` says when to try again.",
}
AUTHENTICATED_ERRORS = {
    "401": "The credentials are missing or not valid.",
    "403": "Your role does not allow this.",
}
# Public operations that refuse credentials in their body.
OPERATION_ERRORS = {
    "sign_in": {"401": "The e-mail address or the password is wrong."},
    "refresh_tokens": {"401": "The refresh token is not valid or was used already."},
    "register": {"403": "Only customers and store owners can register."},
}
WRITE_ERRORS = {"409": "The object exists already, or its state does not allow this."}
QUERY_ERRORS = {"422": "A query parameter is not valid."}
BODY_ERRORS = {
    "413": "The body is too large.",
    "415": "The body has an unsupported media type.",
    "422": "A field or a query parameter is missing or not valid.",
}


def add_errors(result: dict[str, Any], generator: Any, request: Any, public: bool) -> dict[str, Any]:
    """Add the errors that each operation can answer. A drf-spectacular post-processing hook."""
    result.setdefault("components", {}).setdefault("schemas", {})["Error"] = ERROR_SCHEMA
    for operations in result["paths"].values():
        for method, operation in operations.items():
            for status, description in sorted(_errors(method, operation).items()):
                response = {"description": description, "content": {"application/json": {"schema": ERROR_REF}}}
                operation["responses"].setdefault(status, response)
    return result


def _errors(method: str, operation: dict[str, Any]) -> dict[str, str]:
    """Return the descriptions of an operation's errors by status."""
    errors = COMMON_ERRORS | OPERATION_ERRORS.get(operation["operationId"], {})
    if any(operation.get("security", ())):
        errors |= AUTHENTICATED_ERRORS
    if method != "get":
        errors |= WRITE_ERRORS
    if any(parameter["in"] != "path" for parameter in operation.get("parameters", ())):
        errors |= QUERY_ERRORS
    return errors | (BODY_ERRORS if "requestBody" in operation else {})
