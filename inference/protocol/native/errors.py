"""Wire structs of the errors of native routes."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from inference.protocol.errors import ErrorCode

ErrorText = Annotated[
    str,
    Meta(
        description="What is wrong and what to do, in English.",
        examples=["`temperature` must be a number from 0 to 2, not 3."],
    ),
]
RequestId = Annotated[
    str,
    Meta(
        description="Id of the request in the server's log; also in the `X-Request-Id` header.",
        examples=["req_9f86d081884c7d659a2feaa0"],
    ),
]
Timestamp = Annotated[str, Meta(description="Time of the response in ISO 8601.", examples=["2026-11-21T18:05:00.412Z"])]


class ErrorDetail(Struct, omit_defaults=True):
    """One error."""

    code: Annotated[ErrorCode, Meta(description="Name of the error for programs.")]
    message: ErrorText
    details: Annotated[
        dict[str, Any] | None,
        Meta(description="Facts for programs, such as the `field` that is wrong.", examples=[{"field": "temperature"}]),
    ] = None
    retry_after: Annotated[
        int | None, Meta(description="Only with 429: seconds until the request may be sent again.", examples=[12])
    ] = None


class ErrorResponse(Struct):
    """The body of every error of a native route."""

    error: Annotated[ErrorDetail, Meta(description="Error.")]
    request_id: RequestId
    timestamp: Timestamp
