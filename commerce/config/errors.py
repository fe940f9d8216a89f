"""The form of an error on the wire, the same from every layer of the shop."""

from typing import Any

from shared.api.errors import Problem


def error_body(problem: Problem, *, path: str, request_id: str) -> dict[str, Any]:
    """`{message, code, request_id}`; a 422 adds `errors`, `{field: [messages]}`; its message is the first of them."""
    body: dict[str, Any] = {"message": problem.message, "code": problem.code, "request_id": request_id}
    if problem.errors:
        body["errors"] = problem.errors
    return body
