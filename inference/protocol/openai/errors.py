"""The error body of the routes under /v1."""

from msgspec import Struct


class OpenAIErrorDetail(Struct):
    """What went wrong; `param` is the field that was wrong."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIErrorEvent(Struct):
    """The end of a stream that failed."""

    error: OpenAIErrorDetail


class OpenAIErrorResponse(Struct):
    """Every error of a /v1 route."""

    error: OpenAIErrorDetail
    request_id: str
    timestamp: str
