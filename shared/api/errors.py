"""Errors of the API: a neutral Problem, which each project's `error_body` turns into its own JSON."""

import json
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Protocol, cast

from django.conf import settings
from django.http import HttpResponse
from django.utils.module_loading import import_string

DEFAULT_CODES = {
    400: "invalid_request",
    401: "not_authenticated",
    403: "permission_denied",
    404: "not_found",
    405: "method_not_allowed",
    406: "not_acceptable",
    409: "conflict",
    411: "length_required",
    413: "payload_too_large",
    415: "unsupported_media_type",
    422: "validation_error",
    429: "rate_limited",
    431: "headers_too_large",
    500: "internal_error",
    503: "unavailable",
}
DEFAULT_MESSAGES = {
    400: "The request cannot be understood.",
    401: "Sign in, or send a valid API key.",
    403: "You may not do this.",
    404: "There is nothing at this address. Look for mistakes in it, and in its ids; the docs list every route.",
    405: "This method is not allowed here. The Allow header says which are.",
    406: "Only application/json can be answered.",
    413: "The request body is too large.",
    415: "Send the body as application/json.",
    500: "Something went wrong on our side. Tell us the request id if it happens again.",
    503: "The service is temporarily unavailable. Try again later.",
}


@dataclass(kw_only=True)
class Problem:
    """An error: HTTP status, neutral code, and a message that says what to do. `errors` has messages per field."""

    status: int
    code: str
    message: str
    errors: dict[str, list[str]] | None = None
    details: dict[str, Any] | None = None
    headers: dict[str, str] = field(default_factory=dict)

    @classmethod
    def from_status(cls, status: int, *, headers: dict[str, str] | None = None) -> "Problem":
        """Return the Problem of a status about which nothing else is known."""
        fallback = 500 if status >= 500 else 400
        return cls(
            status=status,
            code=DEFAULT_CODES.get(status, DEFAULT_CODES[fallback]),
            message=DEFAULT_MESSAGES.get(status, DEFAULT_MESSAGES[fallback]),
            headers=headers or {},
        )


class ApiError(Exception):
    """Exception that becomes the error response of the request, raised anywhere below a view."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        errors: dict[str, list[str]] | None = None,
        details: dict[str, Any] | None = None,
        headers: dict[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.problem = Problem(
            status=status,
            code=code or Problem.from_status(status).code,
            message=message,
            errors=errors,
            details=details,
            headers=headers or {},
        )


class ValidationFailed(ApiError):
    """The request is well-formed but invalid: messages per field, of which the first is the summary.

    Its status is `settings.API_VALIDATION_STATUS` (default 422).
    """

    def __init__(self, errors: dict[str, list[str]]) -> None:
        message = next((text for texts in errors.values() for text in texts), "The request is not valid.")
        status: int = getattr(settings, "API_VALIDATION_STATUS", 422)
        super().__init__(status, message, code="validation_error", errors=errors)


class NotFound(ApiError):
    """A 404 with the sentence that every surface uses for an object that is missing or not visible to the user."""

    def __init__(self) -> None:
        super().__init__(404, DEFAULT_MESSAGES[404])


class ErrorBody(Protocol):
    """Function that returns a project's error body, named by `settings.API_ERROR_BODY`."""

    def __call__(self, problem: Problem, *, path: str, request_id: str) -> dict[str, Any]: ...


@cache
def _error_body(dotted_path: str) -> ErrorBody:
    return cast(ErrorBody, import_string(dotted_path))


def error_body_bytes(problem: Problem, *, path: str, request_id: str) -> bytes:
    """Return the body of an error response that does not pass through Django."""
    body = _error_body(settings.API_ERROR_BODY)(problem, path=path, request_id=request_id)
    return json.dumps(body, ensure_ascii=False).encode()


def problem_response(problem: Problem, *, path: str, request_id: str) -> HttpResponse:
    """Return the response for a Problem. All error responses of Django are made here."""
    return HttpResponse(
        error_body_bytes(problem, path=path, request_id=request_id),
        status=problem.status,
        content_type="application/json",
        headers=problem.headers,
    )
