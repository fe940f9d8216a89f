"""Wire structs of the errors under /v1."""

from typing import Annotated

from msgspec import Meta, Struct

from inference.protocol.native.errors import ErrorText, RequestId, Timestamp


class OpenAIErrorDetail(Struct):
    """One error."""

    message: ErrorText
    type: Annotated[str, Meta(description="Kind of the error, as OpenAI names it.", examples=["invalid_request_error"])]
    param: Annotated[str | None, Meta(description="Field that is wrong, if one is.", examples=["temperature"])]
    code: Annotated[str | None, Meta(description="Name of the error for programs.", examples=["invalid_request"])]


class OpenAIErrorEvent(Struct):
    """The last event of a stream that failed."""

    error: Annotated[OpenAIErrorDetail, Meta(description="Error that ended the stream.")]


class OpenAIErrorResponse(Struct):
    """The body of every error under /v1, except those of messages."""

    error: Annotated[OpenAIErrorDetail, Meta(description="Error.")]
    request_id: RequestId
    timestamp: Timestamp
