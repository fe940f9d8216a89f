"""Responses of operations: wire structs and engine errors as HTTP."""

from collections.abc import Mapping

import msgspec
import structlog
from django.http import HttpResponse

from inference.engine import DeadlineExceeded, EngineError, HostUnavailable, ModelLoadFailed
from inference.protocol.errors import error_code_and_status
from shared.api.errors import ApiError, Problem

# A retry of these fails in the same way: the client's own timeout has passed, or the model cannot be loaded.
_NOT_RETRYABLE = (DeadlineExceeded, ModelLoadFailed)

MAX_QUOTED_ID_LENGTH = 100  # of a wrong id in an error message

_encoder = msgspec.json.Encoder()
logger = structlog.get_logger(__name__)


class ObjectNotFound(ApiError):
    """The 404 for an object that does not exist or belongs to another user, in the same words for all routes.

    field: the field of the request that names the object, if the error should say so.
    """

    def __init__(self, kind: str, object_id: str, *, field: str | None = None) -> None:
        message = f"There is no {kind} {object_id[:MAX_QUOTED_ID_LENGTH]!r}, or it is not yours."
        super().__init__(404, message, details={"field": field} if field else None)


def json_response(body: msgspec.Struct, headers: Mapping[str, str] | None = None) -> HttpResponse:
    """Return a wire struct as a JSON response."""
    return HttpResponse(_encoder.encode(body), content_type="application/json", headers=headers)


def problem_from_engine_error(error: EngineError) -> Problem:
    """Return an engine error as the problem that every surface answers with."""
    code, status = error_code_and_status(error)
    details, message = dict(error.details), error.message
    if isinstance(error, HostUnavailable):  # its message is for the operator: it names folders of this machine
        logger.error("model_host_unavailable", reason=message)
        message = "The model host is not available. Try again later."
    headers = {}
    if isinstance(error, _NOT_RETRYABLE) and "retry_after" not in details:
        headers["X-Should-Retry"] = "false"  # OpenAI's clients would otherwise retry twice
    if status == 503:
        headers["Retry-After"] = str(max(1, round(details.pop("retry_after", 1))))
    return Problem(status=status, code=code, message=message, details=details or None, headers=headers)
