"""The error body of the native routes."""

from typing import Any

from msgspec import Struct

from inference.protocol.errors import ErrorCode


class ErrorDetail(Struct, omit_defaults=True):
    """What went wrong."""

    code: ErrorCode
    message: str
    details: dict[str, Any] | None = None
    retry_after: int | None = None


class ErrorResponse(Struct):
    """Every error of a native route."""

    error: ErrorDetail
    request_id: str
    timestamp: str
