"""The contract's error codes, their statuses, and the two bodies that carry them: native and OpenAI's."""

from enum import StrEnum
from typing import Any

from inference.engine import DeadlineExceeded, EngineDied, EngineError, FinishReason, GenerationOutput, InferenceFailed


class ErrorCode(StrEnum):
    """Every code that an error body can carry."""

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


# What an error of the engine is on the wire; with `retry_after` in its details it is 503 whatever stands here.
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

# OpenAI's clients and their users know these names.
_OPENAI_CODES = {
    ErrorCode.AUTHENTICATION_FAILED: "invalid_api_key",
    ErrorCode.AUTHORIZATION_FAILED: "insufficient_permissions",
}
_OPENAI_PARAMS = {"prompt_ids": "prompt"}
_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}

MODEL_UNLOADED_MESSAGE = "The model was unloaded while it wrote this. Load it and try again."


def error_code_and_status(error: EngineError) -> tuple[ErrorCode, int]:
    """The contract's code for an engine's error, and the HTTP status that goes with it."""
    code, status = _ENGINE_ERRORS.get(error.code, (ErrorCode.INTERNAL_ERROR, 500))
    return code, 503 if "retry_after" in error.details else status


def error_from_output(output: GenerationOutput) -> EngineError:
    """What an output with finish_reason `error`, or one of `cancelled` where that is none, says."""
    if output.finish_reason is FinishReason.CANCELLED:
        return model_unloaded_error()
    message = output.error or "The generation failed; try again."
    kinds = {ErrorCode.TIMEOUT: DeadlineExceeded, EngineDied.__name__: EngineDied}
    return kinds.get(output.error_code or "", InferenceFailed)(message)


def model_unloaded_error() -> EngineError:
    """What became of a generation that was cancelled, though its client stayed."""
    return EngineDied(MODEL_UNLOADED_MESSAGE, reason="model_unloaded")


def native_error_body(code: str, message: str, details: dict[str, Any] | None = None) -> dict[str, Any]:
    """`{"error": {code, message, details?}}`; a rate limit's `retry_after` stands beside the message."""
    error: dict[str, Any] = {"code": code, "message": message}
    rest = dict(details or {})
    if code == ErrorCode.RATE_LIMIT_EXCEEDED and "retry_after" in rest:
        error["retry_after"] = rest.pop("retry_after")
    if rest:
        error["details"] = rest
    return {"error": error}


def openai_error_body(code: str, message: str, status: int, details: dict[str, Any] | None = None) -> dict[str, Any]:
    """`{"error": {message, type, param, code}}`; `param` is the field that was wrong, when it was one."""
    kind = "server_error" if status >= 500 else _OPENAI_TYPES.get(status, "invalid_request_error")
    named = (details or {}).get("field", (details or {}).get("parameter"))
    param = "model" if code == ErrorCode.MODEL_NOT_FOUND else _OPENAI_PARAMS.get(str(named), named)
    openai_code = _OPENAI_CODES.get(ErrorCode(code), code.lower()) if code in ErrorCode.__members__ else code.lower()
    return {"error": {"message": message, "type": kind, "param": param, "code": openai_code}}


def openai_stream_error(output: GenerationOutput) -> dict[str, Any]:
    """The event that ends a stream under /v1 where no choice ends well: OpenAI's clients know no `cancelled`."""
    error = error_from_output(output)
    code, status = error_code_and_status(error)
    return openai_error_body(code, error.message, status)
