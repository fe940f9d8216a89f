"""Complete batch requests: succeeded, failed, timed out, crashed or rejected by an unavailable model."""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from inference.batches.worker.execution import ExecutionResult
from inference.batches.worker.leases import ClaimedRequest
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
IDLE_BACKOFF = timedelta(seconds=3)
INTERNAL_ERROR_MESSAGE = "An internal error occurred."

logger = structlog.get_logger(__name__)


@dataclass
class CompletedRequests:
    """A group of requests that ended together, by what has to happen to them.

    outcomes: final. timed_out: retried, or final at the last attempt. crashed, rejected: primary keys, to requeue.
    """

    outcomes: list[RequestOutcome] = field(default_factory=list)
    timed_out: list[RequestOutcome] = field(default_factory=list)
    crashed: list[int] = field(default_factory=list)
    rejected: list[int] = field(default_factory=list)


class CompletionClassifier:
    """Classifies how the requests of a run ended.

    retry_after: seconds until the model may be available again; None while it is available.
    """

    def __init__(self) -> None:
        self.retry_after: float | None = None

    def classify(self, tasks: Mapping[asyncio.Task[ExecutionResult], ClaimedRequest]) -> CompletedRequests:
        """Sort finished tasks by how they ended."""
        group = CompletedRequests()
        for task, request in tasks.items():
            error = task.exception()
            if error is None:
                group.outcomes.append(_succeeded(request, task.result()))
            else:
                self._classify_error(error, request, group)
        return group

    def backoff_delay(self, backoff_count: int) -> timedelta | None:
        """Return the delay before the batch's next dispatch, exponential in its backoffs, or None for no backoff."""
        if self.retry_after is None:
            return None
        return timedelta(seconds=BACKOFF.seconds(backoff_count + 1, at_least=self.retry_after))

    def note_rejections(self, *, is_idle: bool) -> None:
        """Back off if the model rejected requests while none of ours runs, so that no end of ours frees a place."""
        if is_idle and self.retry_after is None:
            self.retry_after = BACKOFF.first_seconds

    def _classify_error(self, error: BaseException, request: ClaimedRequest, group: CompletedRequests) -> None:
        if isinstance(error, InvalidRequest | ContextLengthExceeded):
            group.outcomes.append(_failed(request, error_code_and_status(error)[0], error.message))
        elif isinstance(error, DeadlineExceeded):
            group.timed_out.append(_failed(request, ErrorCode.TIMEOUT, error.message))
        elif isinstance(error, EngineDied | InferenceFailed):
            group.crashed.append(request.pk)
        elif isinstance(error, EngineError | ApiError):
            group.rejected.append(request.pk)
            self._note_unavailable(error)
        else:
            logger.error("batch_request_failed", request=request.pk, exc_info=error)
            group.outcomes.append(_failed(request, ErrorCode.INTERNAL_ERROR, INTERNAL_ERROR_MESSAGE))

    def _note_unavailable(self, error: EngineError | ApiError) -> None:
        details = error.details if isinstance(error, EngineError) else {}
        if isinstance(error, EngineOverloaded) and details.get("reason") == "queue_full":
            return  # the model is available; the run lowers its concurrency instead
        reason = error.code if isinstance(error, EngineError) else error.problem.code
        logger.warning("batch_model_unavailable", reason=reason)
        self.retry_after = max(self.retry_after or 0.0, float(details.get("retry_after", 0.0)))


def _succeeded(request: ClaimedRequest, result: ExecutionResult) -> RequestOutcome:
    return RequestOutcome(
        request=request.pk,
        answer=result.answer,
        prompt_tokens=result.prompt_tokens,
        completion_tokens=result.completion_tokens,
        cached_tokens=result.cached_tokens,
        processing_time_ms=result.processing_time_ms,
    )


def _failed(request: ClaimedRequest, code: ErrorCode, message: str) -> RequestOutcome:
    return RequestOutcome(request=request.pk, error_code=code, error_message=message)
