"""Error responses of a remote server as the engine's errors."""

import ssl
from typing import Any

import httpx2
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
from inference.remote.configuration import RemoteModel

# httpx2's asynchronous connections do not map the errors of TLS that come after the handshake.
CONNECTION_ERRORS = (httpx2.HTTPError, httpx2.InvalidURL, ssl.SSLError)
# After these the server does not have the request.
UNREACHED_ERRORS = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.InvalidURL)
MAX_MESSAGE_LENGTH = 500
MAX_RETRY_AFTER_SECONDS = 120.0
DEFAULT_RETRY_AFTER_SECONDS = 1.0
UNAVAILABLE_RETRY_AFTER_SECONDS = 5.0


class RemoteUnavailable(EngineError):
    """The remote server cannot be used at the moment. details: reason, retry_after (seconds).

    was_reached: the server may have received the request.
    """

    def __init__(self, message: str, *, was_reached: bool = True) -> None:
        super().__init__(message, reason="remote_unavailable", retry_after=UNAVAILABLE_RETRY_AFTER_SECONDS)
        self.was_reached = was_reached


class RemoteErrorDetail(msgspec.Struct):
    """The error of a response, empty where it has none that we know."""

    message: str = ""
    code: str | int | None = None
    param: str | None = None


class _ErrorBody(msgspec.Struct):
    error: RemoteErrorDetail | str = ""
    message: str = ""
    detail: Any = None  # FastAPI's own errors: a text, or a list of validation errors


def error_from_response(model: RemoteModel, status: int, body: bytes, retry_after: str | None) -> EngineError:
    """Return the engine error for a response with this status."""
    detail, model_id = parse_error(body, api_key=model.api_key), model.id
    quote = f" It says: {detail.message}" if detail.message else ""
    wait = _retry_after_seconds(retry_after)
    if detail.code == "model_not_loaded":
        message = f"The server of {model_id} has not loaded it.{quote}"
        return ModelNotLoaded(message, retry_after=wait) if status == 503 else ModelNotLoaded(message)
    if status in (400, 413, 422):
        if detail.code == "context_length_exceeded":
            return ContextLengthExceeded(detail.message)
        message = f"The server of {model_id} rejected the request.{quote}"
        return InvalidRequest(message, field=detail.param) if detail.param else InvalidRequest(message)
    if status in (408, 504):
        return DeadlineExceeded(f"The server of {model_id} took too long.{quote}")
    if status in (429, 503):
        message = f"The server of {model_id} is overloaded.{quote}"
        return EngineOverloaded(message, reason="overloaded", retry_after=wait)
    if status >= 500:  # its message may contain internals
        return InferenceFailed(f"The server of {model_id} failed. Try again.")
    return RemoteUnavailable(f"{unavailable_reason(status)} The operator must correct this.")


def unavailable_reason(status: int) -> str:
    """Return the reason of a status that no client request can have caused."""
    if status in (401, 403):
        return "The remote server rejects the configured API key."
    if status == 404:
        return "The remote server has no such model at the configured address."
    return f"The remote server returned status {status}."


def parse_error(body: bytes, *, api_key: str = "") -> RemoteErrorDetail:
    """Return the error of a body in OpenAI's or FastAPI's form, fit to be quoted to a client.

    api_key: what the server was called with. A server may quote it, and it is replaced by `[key]`.
    """
    try:
        parsed = msgspec.json.decode(body, type=_ErrorBody)
    except (msgspec.DecodeError, RecursionError):
        return RemoteErrorDetail()
    error = parsed.error if isinstance(parsed.error, RemoteErrorDetail) else RemoteErrorDetail(parsed.error)
    detail = parsed.detail if isinstance(parsed.detail, str) else ""
    message = _quotable(error.message or parsed.message or detail, api_key)
    code = _quotable(error.code, api_key) if isinstance(error.code, str) else error.code
    return RemoteErrorDetail(message, code, error.param and _quotable(error.param, api_key))


def _quotable(text: str, api_key: str) -> str:
    """Return the beginning of a server's text without the key, and without NUL, which PostgreSQL refuses."""
    if api_key:
        text = text.replace(api_key, "[key]")  # before it is cut: a part of the key would be left
    return text[:MAX_MESSAGE_LENGTH].replace("\x00", "\ufffd")


def _retry_after_seconds(header: str | None) -> float:
    seconds = float(header) if header and header.isdecimal() else DEFAULT_RETRY_AFTER_SECONDS
    return min(seconds, MAX_RETRY_AFTER_SECONDS)
