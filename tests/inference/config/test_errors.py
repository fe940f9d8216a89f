"""The body of a Problem, in the native form and in OpenAI's form under /v1."""

import re

import pytest

from inference.config.errors import error_body
from shared.api.errors import Problem


@pytest.mark.parametrize(
    ("status", "code"),
    [
        (400, "INVALID_REQUEST"),
        (401, "AUTHENTICATION_FAILED"),
        (403, "AUTHORIZATION_FAILED"),
        (404, "INVALID_REQUEST"),
        (405, "INVALID_REQUEST"),
        (413, "INVALID_REQUEST"),
        (415, "INVALID_REQUEST"),
        (422, "INVALID_REQUEST"),
        (429, "RATE_LIMIT_EXCEEDED"),
        (500, "INTERNAL_ERROR"),
        (503, "INFERENCE_FAILED"),
    ],
)
def test_every_status_has_its_code(status: int, code: str):
    body = error_body(Problem.from_status(status), path="/models", request_id="req_1")

    assert body["error"]["code"] == code
    assert body["error"]["message"]
    assert body["request_id"] == "req_1"
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", body["timestamp"])


def test_a_native_code_is_kept_with_its_details():
    problem = Problem(status=404, code="MODEL_NOT_FOUND", message="No.", details={"available_models": ["a"]})

    native = error_body(problem, path="/v1x", request_id="")
    openai = error_body(problem, path="/v1/models/x", request_id="")

    assert native["error"] == {"code": "MODEL_NOT_FOUND", "message": "No.", "details": {"available_models": ["a"]}}
    assert openai["error"] == {
        "message": "No.",
        "type": "invalid_request_error",
        "param": "model",
        "code": "model_not_found",
    }


def test_a_rate_limit_has_retry_after_and_a_503_its_reason():
    limited = error_body(Problem.from_status(429, headers={"Retry-After": "7"}), path="/auth/login", request_id="")
    away = error_body(Problem.from_status(503), path="/inference", request_id="")

    assert limited["error"]["retry_after"] == 7
    assert away["error"]["details"] == {"reason": "unavailable"}
