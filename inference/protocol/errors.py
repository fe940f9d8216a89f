"""Error codes of the API, their statuses, and the bodies of errors: native and in OpenAI's form."""

from enum import StrEnum
from typing import Any

from inference.engine import DeadlineExceeded, EngineDied, EngineError, FinishReason, GenerationOutput, InferenceFailed


class ErrorCode(StrEnum):
    """Error codes of the native API."""

    INVALID_REQUEST = "INVALID_REQUEST"
    AUTHENTICATION_FAILED = "AUTHENTICATION_FAILED"
    AUTHORIZATION_FAILED = "AUTHORIZATION_FAILED"
    MODEL_NOT_FOUND = "MODEL_NOT_FOUND"
    MODEL_NOT_LOADED = "MODEL_NOT_LOADED"
    RATE_LIMIT_EXCEEDED = "RATE_LIMIT_EXCEEDED"
    CONTEXT_LENGTH_EXCEEDED = "CONTEXT_LENGTH_EXCEEDED"
    INFERENCE_FAILED = "INFERENCE_FAILED"
    TIMEOUT = "TIMEOUT"
    INTERNAL_ERROR = "INTERNAL_ERROR"


# Code and status of the engine's errors. An error with `retry_after` in its details has the status 503.
_ENGINE_ERRORS: dict[str, tuple[ErrorCode, int]] = {
    "InvalidRequest": (ErrorCode.INVALID_REQUEST, 400),
    "ContextLengthExceeded": (ErrorCode.CONTEXT_LENGTH_EXCEEDED, 400),
    "ModelNotLoaded": (ErrorCode.MODEL_NOT_LOADED, 400),
    "ModelLoadFailed": (ErrorCode.INFERENCE_FAILED, 500),
    "InferenceFailed": (ErrorCode.INFERENCE_FAILED, 500),
    "EngineDied": (ErrorCode.INFERENCE_FAILED, 503),
    "DeadlineExceeded": (ErrorCode.TIMEOUT, 503),
    "EngineOverloaded": (ErrorCode.INFERENCE_FAILED, 503),
    "HostUnavailable": (ErrorCode.INFERENCE_FAILED, 503),
    "RemoteUnavailable": (ErrorCode.INFERENCE_FAILED, 503),
}

# The names that OpenAI's clients know.
_OPENAI_CODES = {
    ErrorCode.AUTHENTICATION_FAILED: "invalid_api_key",
    ErrorCode.AUTHORIZATION_FAILED: "insufficient_permissions",
}
_OPENAI_PARAMS = {"prompt_ids": "prompt"}
_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}

INCOMPLETE_MESSAGE = "The generation ended unexpectedly. Try again."
MODEL_UNLOADED_MESSAGE = "The model was unloaded during the generation. Load it and try again."


def error_code_and_status(error: EngineError) -> tuple[ErrorCode, int]:
    """Return the code and the HTTP status of an engine's error."""
    code, status = _ENGINE_ERRORS.get(error.code, (ErrorCode.INTERNAL_ERROR, 500))
    return code, 503 if "retry_after" in error.details else status


def error_from_output(output: GenerationOutput) -> EngineError:
    """Return the error of an output whose finish reason is `error`, or `cancelled` where clients do not know that."""
    if output.finish_reason is FinishReason.CANCELLED:
        return model_unloaded_error()
    message = output.error or "The generation failed. Try again."
    kinds = {ErrorCode.TIMEOUT: DeadlineExceeded, EngineDied.__name__: EngineDied}
    return kinds.get(output.error_code or "", InferenceFailed)(message)


def model_unloaded_error() -> EngineError:
    """Return the error of a generation that ended because its model was unloaded."""
    return EngineDied(MODEL_UNLOADED_MESSAGE, reason="model_unloaded")


def native_error_body(code: str, message: str, details: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return `{"error": {code, message, details?}}`; the `retry_after` of a rate limit stands beside the message."""
    error: dict[str, Any] = {"code": code, "message": message}
    remaining = dict(details or {})
    if code == ErrorCode.RATE_LIMIT_EXCEEDED and "retry_after" in remaining:
        error["retry_after"] = remaining.pop("retry_after")
    if remaining:
        error["details"] = remaining
    return {"error": error}


def openai_error_body(code: str, message: str, status: int, details: dict[str, Any] | None = None) -> dict[str, Any]:
    """Return `{"error": {message, type, param, code}}`; `param` is the field that is wrong, if one is."""
    kind = "server_error" if status >= 500 else _OPENAI_TYPES.get(status, "invalid_request_error")
    field = (details or {}).get("field", (details or {}).get("parameter"))
    param = "model" if code == ErrorCode.MODEL_NOT_FOUND else _OPENAI_PARAMS.get(str(field), field)
    openai_code = _OPENAI_CODES.get(ErrorCode(code), code.lower()) if code in ErrorCode.__members__ else code.lower()
    return {"error": {"message": message, "type": kind, "param": param, "code": openai_code}}


def cohere_error_body(code: str, message: str, request_id: str) -> dict[str, Any]:
    """Return `{"id", "message", "code"}`; Cohere has no codes."""
    return {"id": request_id, "message": message, "code": code}


def openai_stream_error(output: GenerationOutput) -> dict[str, Any]:
    """Return the event that ends a failed stream under /v1. OpenAI's clients do not know the reason `cancelled`."""
    error = error_from_output(output)
    code, status = error_code_and_status(error)
    return openai_error_body(code, error.message, status)
