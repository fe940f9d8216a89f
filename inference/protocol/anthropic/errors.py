"""The bodies of errors in Anthropic's form."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from inference.protocol.native.errors import ErrorText, RequestId

_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    503: "overloaded_error",
}


class AnthropicErrorDetail(Struct):
    """One error."""

    type: Annotated[
        str, Meta(description="Kind of the error, as Anthropic names it.", examples=["invalid_request_error"])
    ]
    message: ErrorText


class AnthropicErrorEvent(Struct):
    """The event that ends a failed stream."""

    type: Annotated[Literal["error"], Meta(description="Kind of the object.")]
    error: Annotated[AnthropicErrorDetail, Meta(description="Error.")]


class AnthropicErrorResponse(Struct):
    """The body of an error."""

    type: Annotated[Literal["error"], Meta(description="Kind of the object.")]
    error: Annotated[AnthropicErrorDetail, Meta(description="Error.")]
    request_id: RequestId


def anthropic_error_body(message: str, status: int) -> dict[str, Any]:
    """Return `{"type": "error", "error": {type, message}}`."""
    kind = _TYPES.get(status, "api_error" if status >= 500 else "invalid_request_error")
    return {"type": "error", "error": {"type": kind, "message": message}}
