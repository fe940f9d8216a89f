"""How requests end: answered, wrong for good, late, in a crash, or refused by a model that cannot be asked just now."""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import timedelta

import structlog

from inference.batches.answering import Answer
from inference.batches.leases import Claimed
from inference.batches.outcomes import Outcome
from inference.engine import (
    ContextLengthExceeded,
    DeadlineExceeded,
    EngineDied,
    EngineError,
    EngineOverloaded,
    InferenceFailed,
    InvalidRequest,
)
from inference.protocol.errors import Code, code_and_status
from shared.api.errors import ApiError

SHORTEST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 30.0
INTERNAL = "Something went wrong on our side."

logger = structlog.get_logger(__name__)


@dataclass
class Ended:
    """Some requests that ended together. outcomes: for good. late: each with what it would fail with. crashed and
    refused: their keys."""

    outcomes: list[Outcome] = field(default_factory=list)
    late: list[Outcome] = field(default_factory=list)
    crashed: list[int] = field(default_factory=list)
    refused: list[int] = field(default_factory=list)


class Endings:
    """Sorts what comes of the requests of a turn. pause: seconds after which the model can be asked again, as far as is
    known; None: it can be asked now."""

    IDLE = timedelta(seconds=3)

    def __init__(self) -> None:
        self.pause: float | None = None

    def sort(self, tasks: Mapping[asyncio.Task[Answer], Claimed]) -> Ended:
        ended = Ended()
        for task, request in tasks.items():
            error = task.exception()
            if error is None:
                ended.outcomes.append(_answered(request, task.result()))
            else:
                self._sort_error(error, request, ended)
        return ended

    def pause_after(self, setbacks: int) -> timedelta | None:
        """How long nobody is sent for the batch: the longer, the more often in a row it came to nothing."""
        if self.pause is None:
            return None
        least = max(self.pause, SHORTEST_PAUSE_S * 2 ** min(setbacks, 5))
        return timedelta(seconds=min(least, LONGEST_PAUSE_S) * random.uniform(0.8, 1.2))  # noqa: S311 no secret

    def note_full(self, *, is_idle: bool) -> None:
        """The model's queue took not all. With nothing of ours in it, there is nothing to wait for but others."""
        if is_idle and self.pause is None:
            self.pause = SHORTEST_PAUSE_S

    def _sort_error(self, error: BaseException, request: Claimed, ended: Ended) -> None:
        if isinstance(error, InvalidRequest | ContextLengthExceeded):
            ended.outcomes.append(_failed(request, code_and_status(error)[0], error.message))
        elif isinstance(error, DeadlineExceeded):
            ended.late.append(_failed(request, Code.TIMEOUT, error.message))
        elif isinstance(error, EngineDied | InferenceFailed):
            ended.crashed.append(request.pk)
        elif isinstance(error, EngineError | ApiError):
            ended.refused.append(request.pk)
            self._note_refusal(error)
        else:
            logger.error("batch_request_failed", request=request.pk, exc_info=error)
            ended.outcomes.append(_failed(request, Code.INTERNAL_ERROR, INTERNAL))

    def _note_refusal(self, error: EngineError | ApiError) -> None:
        details = error.details if isinstance(error, EngineError) else {}
        if isinstance(error, EngineOverloaded) and details.get("reason") == "queue_full":
            return  # it does what it can: we ask for less at once
        reason = error.code if isinstance(error, EngineError) else error.problem.code
        logger.warning("batch_model_unavailable", reason=reason)
        self.pause = max(self.pause or 0.0, float(details.get("retry_after", 0.0)))


def _answered(request: Claimed, answer: Answer) -> Outcome:
    return Outcome(
        request=request.pk,
        answer=answer.json,
        prompt_tokens=answer.prompt_tokens,
        completion_tokens=answer.completion_tokens,
        cached_tokens=answer.cached_tokens,
        processing_time_ms=answer.processing_time_ms,
    )


def _failed(request: Claimed, code: Code, message: str) -> Outcome:
    return Outcome(request=request.pk, error_code=code, error_message=message)
