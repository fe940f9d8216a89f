"""The model server's wire form of errors: the contract's on native routes, OpenAI's under /v1."""

from datetime import UTC, datetime
from typing import Any

from inference.protocol.errors import Code, native_error, openai_error
from shared.api.errors import Problem

_CODES = {
    "not_authenticated": Code.AUTHENTICATION_FAILED,
    "permission_denied": Code.AUTHORIZATION_FAILED,
    "rate_limited": Code.RATE_LIMIT_EXCEEDED,
    "internal_error": Code.INTERNAL_ERROR,
    "unavailable": Code.INFERENCE_FAILED,
}


def error_body(problem: Problem, *, path: str, request_id: str) -> dict[str, Any]:
    """The body of an error answer to a request for `path`."""
    code = Code(problem.code) if problem.code in Code.__members__ else _CODES.get(problem.code, Code.INVALID_REQUEST)
    details = dict(problem.details or {})
    if problem.errors:
        details["errors"] = problem.errors
    if code is Code.RATE_LIMIT_EXCEEDED and "Retry-After" in problem.headers:
        details["retry_after"] = int(problem.headers["Retry-After"])
    if code is Code.INFERENCE_FAILED and problem.status == 503:
        details.setdefault("reason", "unavailable")
    if path == "/v1" or path.startswith("/v1/"):
        body = openai_error(code, problem.message, problem.status, details)
    else:
        body = native_error(code, problem.message, details)
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return body | {"request_id": request_id, "timestamp": now.replace("+00:00", "Z")}
