"""The bodies of the model server's errors: native ones, and the forms of OpenAI, Cohere, Anthropic, Ollama and MCP."""

from datetime import UTC, datetime
from typing import Any

from inference.protocol.anthropic.errors import anthropic_error_body
from inference.protocol.errors import ErrorCode, cohere_error_body, native_error_body, openai_error_body
from inference.protocol.mcp.messages import mcp_error_body
from shared.api.errors import Problem

_CODES = {
    "not_authenticated": ErrorCode.AUTHENTICATION_FAILED,
    "second_factor_required": ErrorCode.AUTHENTICATION_FAILED,
    "permission_denied": ErrorCode.AUTHORIZATION_FAILED,
    "rate_limited": ErrorCode.RATE_LIMIT_EXCEEDED,
    "internal_error": ErrorCode.INTERNAL_ERROR,
    "unavailable": ErrorCode.INFERENCE_FAILED,
}


def error_body(problem: Problem, *, path: str, request_id: str) -> dict[str, Any]:
    """Return the body of an error response to a request for `path`."""
    code = (
        ErrorCode(problem.code)
        if problem.code in ErrorCode.__members__
        else _CODES.get(problem.code, ErrorCode.INVALID_REQUEST)
    )
    details = dict(problem.details or {})
    if problem.errors:
        details["errors"] = problem.errors
    if code is ErrorCode.RATE_LIMIT_EXCEEDED and "Retry-After" in problem.headers:
        details["retry_after"] = int(problem.headers["Retry-After"])
    if code is ErrorCode.INFERENCE_FAILED and problem.status == 503:
        details.setdefault("reason", "unavailable")
    if is_under(path, "/v1/messages"):
        body = anthropic_error_body(problem.message, problem.status)
    elif is_under(path, "/api"):
        body = {"error": problem.message}
    elif is_under(path, "/mcp"):
        body = mcp_error_body(code, problem.message, problem.status, details)
    elif is_under(path, "/v1"):
        body = openai_error_body(code, problem.message, problem.status, details)
    elif is_under(path, "/v2"):
        body = cohere_error_body(code, problem.message, request_id)
    else:
        body = native_error_body(code, problem.message, details)
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return body | {"request_id": request_id, "timestamp": now.replace("+00:00", "Z")}


def is_under(path: str, prefix: str) -> bool:
    """Return whether a path is the prefix or below it."""
    return path == prefix or path.startswith(f"{prefix}/")
