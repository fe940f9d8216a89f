"""Completion of batch requests: succeeded, failed, timed out, crashed or rejected by an unavailable model."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field

import structlog

from inference.batches.models import BatchRequest
from inference.batches.worker.recording import RequestOutcome
from inference.engine import (
    ContextLengthExceeded,
    DeadlineExceeded,
    EngineDied,
    EngineError,
    EngineOverloaded,
    InferenceFailed,
    InvalidRequest,
)
from inference.protocol.errors import ErrorCode, error_code_and_status
from shared.api.errors import ApiError
from shared.backoff import Backoff

BACKOFF = Backoff(first_seconds=1.0, max_seconds=30.0, jitter=0.2)
INTERNAL_ERROR_MESSAGE = "An internal error occurred."

logger = structlog.get_logger(__name__)


@dataclass
class CompletedRequests:
    """A group of requests that ended together, by what has to happen to them.

    outcomes: final. timed_out: retried, or final at the last attempt. crashed, rejected: primary keys, to requeue.
    retry_after: seconds until the model may be available again; None if it is available.
    """

    outcomes: list[RequestOutcome] = field(default_factory=list)
    timed_out: list[RequestOutcome] = field(default_factory=list)
    crashed: list[int] = field(default_factory=list)
    rejected: list[int] = field(default_factory=list)
    retry_after: float | None = None

    @classmethod
    def from_tasks(cls, tasks: Mapping[asyncio.Task[RequestOutcome], BatchRequest]) -> "CompletedRequests":
        """Sort finished tasks by how they ended."""
        group = cls()
        for task, request in tasks.items():
            error = task.exception()
            if error is None:
                group.outcomes.append(task.result())
            else:
                group._add_error(error, request.pk)
        return group

    def _add_error(self, error: BaseException, request: int) -> None:
        if isinstance(error, InvalidRequest | ContextLengthExceeded):
            self.outcomes.append(_failed(request, error_code_and_status(error)[0], error.message))
        elif isinstance(error, DeadlineExceeded):
            self.timed_out.append(_failed(request, ErrorCode.TIMEOUT, error.message))
        elif isinstance(error, EngineDied | InferenceFailed):
            self.crashed.append(request)
        elif isinstance(error, EngineError | ApiError):
            self.rejected.append(request)
            self._note_unavailable(error)
        else:
            logger.error("batch_request_failed", request=request, exc_info=error)
            self.outcomes.append(_failed(request, ErrorCode.INTERNAL_ERROR, INTERNAL_ERROR_MESSAGE))

    def _note_unavailable(self, error: EngineError | ApiError) -> None:
        details = error.details if isinstance(error, EngineError) else {}
        if isinstance(error, EngineOverloaded) and details.get("reason") == "queue_full":
            return  # the model is available; the run lowers its concurrency instead
        reason = error.code if isinstance(error, EngineError) else error.problem.code
        logger.warning("batch_model_unavailable", reason=reason)
        self.retry_after = max(self.retry_after or 0.0, float(details.get("retry_after", 0.0)))


def _failed(request: int, code: ErrorCode, message: str) -> RequestOutcome:
    return RequestOutcome(request=request, error_code=code, error_message=message)
