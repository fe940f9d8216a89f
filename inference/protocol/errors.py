"""The contract's error codes, their statuses, and the two bodies that carry them: native and OpenAI's."""

from enum import StrEnum
from typing import Any

from inference.engine import DeadlineExceeded, EngineDied, EngineError, FinishReason, GenerationOutput, InferenceFailed


class Code(StrEnum):
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
_ENGINE_ERRORS: dict[str, tuple[Code, int]] = {
    "InvalidRequest": (Code.INVALID_REQUEST, 400),
    "ContextLengthExceeded": (Code.CONTEXT_LENGTH_EXCEEDED, 400),
    "ModelNotLoaded": (Code.MODEL_NOT_LOADED, 400),
    "ModelLoadFailed": (Code.INFERENCE_FAILED, 500),
    "InferenceFailed": (Code.INFERENCE_FAILED, 500),
    "EngineDied": (Code.INFERENCE_FAILED, 503),
    "DeadlineExceeded": (Code.TIMEOUT, 503),
    "EngineOverloaded": (Code.INFERENCE_FAILED, 503),
    "HostUnavailable": (Code.INFERENCE_FAILED, 503),
    "RemoteUnavailable": (Code.INFERENCE_FAILED, 503),
}

# OpenAI's clients and their users know these names.
_OPENAI_CODES = {Code.AUTHENTICATION_FAILED: "invalid_api_key", Code.AUTHORIZATION_FAILED: "insufficient_permissions"}
_OPENAI_PARAMS = {"prompt_ids": "prompt"}
_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}

CANCELLED = "The model was unloaded while it wrote this. Load it and try again."


def code_and_status(error: EngineError) -> tuple[Code, int]:
    """The contract's code for an engine's error, and the HTTP status that goes with it."""
    code, status = _ENGINE_ERRORS.get(error.code, (Code.INTERNAL_ERROR, 500))
    return code, 503 if "retry_after" in error.details else status


def error_of(output: GenerationOutput) -> EngineError:
    """What an output with finish_reason `error`, or one of `cancelled` where that is none, says."""
    if output.finish_reason is FinishReason.CANCELLED:
        return unloaded()
    message = output.error or "The generation failed; try again."
    kinds = {Code.TIMEOUT: DeadlineExceeded, EngineDied.__name__: EngineDied}
    return kinds.get(output.error_code or "", InferenceFailed)(message)


def unloaded() -> EngineError:
    """What became of a generation that was cancelled, though its client stayed."""
    return EngineDied(CANCELLED, reason="model_unloaded")


def native_error(code: str, message: str, details: dict[str, Any] | None = None) -> dict[str, Any]:
    """`{"error": {code, message, details?}}`; a rate limit's `retry_after` stands beside the message."""
    error: dict[str, Any] = {"code": code, "message": message}
    rest = dict(details or {})
    if code == Code.RATE_LIMIT_EXCEEDED and "retry_after" in rest:
        error["retry_after"] = rest.pop("retry_after")
    if rest:
        error["details"] = rest
    return {"error": error}


def openai_error(code: str, message: str, status: int, details: dict[str, Any] | None = None) -> dict[str, Any]:
    """`{"error": {message, type, param, code}}`; `param` is the field that was wrong, when it was one."""
    kind = "server_error" if status >= 500 else _OPENAI_TYPES.get(status, "invalid_request_error")
    named = (details or {}).get("field", (details or {}).get("parameter"))
    param = "model" if code == Code.MODEL_NOT_FOUND else _OPENAI_PARAMS.get(str(named), named)
    openai_code = _OPENAI_CODES.get(Code(code), code.lower()) if code in Code.__members__ else code.lower()
    return {"error": {"message": message, "type": kind, "param": param, "code": openai_code}}


def stream_failure(output: GenerationOutput) -> dict[str, Any]:
    """The event that ends a stream under /v1 where no choice ends well: OpenAI's clients know no `cancelled`."""
    error = error_of(output)
    code, status = code_and_status(error)
    return openai_error(code, error.message, status)
