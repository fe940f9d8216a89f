"""Body of an error response, the same from every layer of the shop."""

from typing import Any

from shared.api.errors import Problem


def error_body(problem: Problem, *, path: str, request_id: str) -> dict[str, Any]:
    """Return message, code and request id; a 422 adds `errors` by field, and its message is the first of them."""
    body: dict[str, Any] = {"message": problem.message, "code": problem.code, "request_id": request_id}
    if problem.errors:
        body["errors"] = problem.errors
    return body
