"""Each error has one code, one status, and a body in the form of its route."""

import pytest

from inference.engine import (
    ContextLengthExceeded,
    EngineDied,
    EngineError,
    EngineOverloaded,
    FinishReason,
    GenerationOutput,
    HostUnavailable,
    InferenceFailed,
    InvalidRequest,
    ModelLoadFailed,
    ModelNotLoaded,
)
from inference.protocol.errors import (
    ErrorCode,
    error_code_and_status,
    error_from_output,
    native_error_body,
    openai_error_body,
)


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (InvalidRequest("x"), (ErrorCode.INVALID_REQUEST, 400)),
        (ContextLengthExceeded("x", context_size=8), (ErrorCode.CONTEXT_LENGTH_EXCEEDED, 400)),
        (ModelNotLoaded("x", state="unloaded"), (ErrorCode.MODEL_NOT_LOADED, 400)),
        (ModelNotLoaded("x", state="loading", retry_after=2), (ErrorCode.MODEL_NOT_LOADED, 503)),
        (ModelLoadFailed("x"), (ErrorCode.INFERENCE_FAILED, 500)),
        (InferenceFailed("x"), (ErrorCode.INFERENCE_FAILED, 500)),
        (EngineDied("x"), (ErrorCode.INFERENCE_FAILED, 503)),
        (EngineOverloaded("x", retry_after=3, reason="queue_full"), (ErrorCode.INFERENCE_FAILED, 503)),
        (HostUnavailable("x"), (ErrorCode.INFERENCE_FAILED, 503)),
        (EngineError("x"), (ErrorCode.INTERNAL_ERROR, 500)),
    ],
    ids=lambda part: part.code if isinstance(part, EngineError) else "",
)
def test_an_engine_error_has_a_code_and_a_status(error: EngineError, expected: tuple[ErrorCode, int]):
    assert error_code_and_status(error) == expected


@pytest.mark.parametrize(
    ("reason", "error_code", "expected"),
    [
        (FinishReason.ERROR, "TIMEOUT", (ErrorCode.TIMEOUT, 503, None)),
        (FinishReason.ERROR, "EngineDied", (ErrorCode.INFERENCE_FAILED, 503, "model_restarting")),
        (FinishReason.ERROR, None, (ErrorCode.INFERENCE_FAILED, 500, None)),
        (FinishReason.CANCELLED, None, (ErrorCode.INFERENCE_FAILED, 503, "model_unloaded")),
    ],
)
def test_a_failed_generation_says_whether_to_try_again(
    reason: FinishReason, error_code: str | None, expected: tuple[ErrorCode, int, str | None]
):
    output = GenerationOutput(request_id="r", index=0, text="", finish_reason=reason, error="m", error_code=error_code)

    error = error_from_output(output)

    assert (*error_code_and_status(error), error.details.get("reason")) == expected


def test_a_native_error_has_details_only_if_there_are_some():
    assert native_error_body("X", "m") == {"error": {"code": "X", "message": "m"}}
    assert native_error_body("X", "m", {"a": 1}) == {"error": {"code": "X", "message": "m", "details": {"a": 1}}}


def test_a_rate_limit_error_has_retry_after_beside_its_message():
    assert native_error_body(ErrorCode.RATE_LIMIT_EXCEEDED, "m", {"retry_after": 5}) == {
        "error": {"code": "RATE_LIMIT_EXCEEDED", "message": "m", "retry_after": 5}
    }


@pytest.mark.parametrize(
    ("code", "status", "kind", "param", "openai_code"),
    [
        (ErrorCode.INVALID_REQUEST, 400, "invalid_request_error", "top_p", "invalid_request"),
        (ErrorCode.AUTHENTICATION_FAILED, 401, "authentication_error", "top_p", "invalid_api_key"),
        (ErrorCode.AUTHORIZATION_FAILED, 403, "permission_error", "top_p", "insufficient_permissions"),
        (ErrorCode.MODEL_NOT_FOUND, 404, "invalid_request_error", "model", "model_not_found"),
        (ErrorCode.CONTEXT_LENGTH_EXCEEDED, 400, "invalid_request_error", "top_p", "context_length_exceeded"),
        (ErrorCode.RATE_LIMIT_EXCEEDED, 429, "rate_limit_error", "top_p", "rate_limit_exceeded"),
        (ErrorCode.INFERENCE_FAILED, 503, "server_error", "top_p", "inference_failed"),
    ],
)
def test_an_openai_error_has_openais_names(code: ErrorCode, status: int, kind: str, param: str, openai_code: str):
    assert openai_error_body(code, "m", status, {"field": "top_p"}) == {
        "error": {"message": "m", "type": kind, "param": param, "code": openai_code}
    }
