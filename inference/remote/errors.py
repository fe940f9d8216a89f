"""How another server's failures become ours."""

from typing import Any

import msgspec

from inference.engine import (
    ContextLengthExceeded,
    DeadlineExceeded,
    EngineError,
    EngineOverloaded,
    InferenceFailed,
    InvalidRequest,
    ModelNotLoaded,
)

LONGEST_MESSAGE = 500
MOST_RETRY_AFTER_S = 120.0
RETRY_AFTER_S = 5.0


class RemoteUnavailable(EngineError):
    """The server behind a remote model cannot be used just now. details: reason, retry_after (seconds)."""

    def __init__(self, message: str) -> None:
        super().__init__(message, reason="remote_unavailable", retry_after=RETRY_AFTER_S)


class _Told(msgspec.Struct):
    message: str = ""
    code: str | int | None = None
    param: str | None = None


class _ErrorBody(msgspec.Struct):
    error: _Told | str = ""
    message: str = ""
    detail: Any = None  # FastAPI's own refusals: words, or a list of what is wrong


def error_from_answer(model_id: str, status: int, body: bytes, retry_after: str | None) -> EngineError:
    """What an answer with an error status says."""
    told = read_error(body)
    said = f" It says: {told.message}" if told.message else ""
    wait = _seconds(retry_after)
    if told.code == "model_not_loaded":
        message = f"The server behind {model_id} has not loaded it.{said}"
        return ModelNotLoaded(message, retry_after=wait) if status == 503 else ModelNotLoaded(message)
    if status in (400, 413, 422):
        if told.code == "context_length_exceeded":
            return ContextLengthExceeded(told.message)
        message = f"The server behind {model_id} refuses this request.{said}"
        return InvalidRequest(message, field=told.param) if told.param else InvalidRequest(message)
    if status in (408, 504):
        return DeadlineExceeded(f"The server behind {model_id} took too long.{said}")
    if status in (429, 503):
        return EngineOverloaded(
            f"The server behind {model_id} is overloaded.{said}", reason="overloaded", retry_after=wait
        )
    if status >= 500:  # what it says then may be of its insides
        return InferenceFailed(f"The server behind {model_id} failed. Try again.")
    return RemoteUnavailable(f"{reason_of_refusal(status)} It is for the operator to mend.")


def reason_of_refusal(status: int) -> str:
    """What an answer says that no client of ours could have caused."""
    if status in (401, 403):
        return "The remote server refuses the key that it is asked with."
    if status == 404:
        return "The remote server does not have the model under its configured name and address."
    return f"The remote server answered with status {status}, which says nothing of a model."


def read_error(body: bytes) -> _Told:
    """OpenAI's error body, or what is like it; empty where it is something else."""
    try:
        read = msgspec.json.decode(body, type=_ErrorBody)
    except msgspec.DecodeError:
        return _Told()
    told = read.error if isinstance(read.error, _Told) else _Told(read.error)
    detail = read.detail if isinstance(read.detail, str) else ""
    return _Told((told.message or read.message or detail)[:LONGEST_MESSAGE], told.code, told.param)


def _seconds(retry_after: str | None) -> float:
    given = float(retry_after) if retry_after and retry_after.isdecimal() else 1.0
    return min(given, MOST_RETRY_AFTER_S)
