"""One run of a background response: from its claim to its end, or to the next run.

A run after a crash generates the response again, with the same seed. Events that are stored already must come again
byte for byte, and are not written twice.
"""

import time
from collections.abc import Iterable
from datetime import timedelta
from math import ceil

import structlog
from django.db import Error as DatabaseError
from django.utils import timezone
from msgspec.structs import replace

from inference.engine import (
    ContextLengthExceeded,
    DeadlineExceeded,
    EngineDied,
    EngineError,
    FinishReason,
    GenerationOutput,
    GenerationRequest,
    GenerationStream,
    InferenceFailed,
    InvalidRequest,
    Usage,
)
from inference.protocol.errors import INCOMPLETE_MESSAGE, error_from_output
from inference.protocol.openai.responses.encoder import ResponseEncoder, error_detail
from inference.protocol.openai.responses.response import ResponseErrorDetail
from inference.registry.engines import model_engine
from inference.responses import services
from inference.responses.runs import MAX_TRUNCATIONS, truncated
from inference.responses.worker.claims import ClaimedResponse, requeue
from inference.streams.recorder import StreamRecorder
from inference.streams.services import StreamLost
from inference.usage.estimates import estimate_generation_tokens
from inference.usage.services import admit
from shared.api.errors import ApiError
from shared.backoff import Backoff
from shared.serving.db_threads import run_in_db_thread

MAX_CRASHES = 20  # of the model's process during one response, which another request may have caused
MAX_FAILURES = 3  # of the response's own generation
CRASH_BACKOFF = Backoff(first_seconds=0.5, max_seconds=15.0, jitter=0.2)
UNAVAILABLE_BACKOFF = Backoff(first_seconds=3.0, max_seconds=15.0, jitter=0.2)  # not loaded, or its queue is full
UNREPEATABLE = (
    "The response was interrupted, and the model did not repeat its beginning exactly. Create the response again."
)
CRASHED = "The model's process crashed each time that it ran this response."
PERMANENT_ERRORS = (InvalidRequest, ContextLengthExceeded, DeadlineExceeded)

logger = structlog.get_logger(__name__)


class Diverged(Exception):
    """A repeated run gave other events than the first."""


class BackgroundRun:
    """One run. It ends the response, or makes it available to the next run."""

    def __init__(self, claimed: ClaimedResponse) -> None:
        self._claimed = claimed
        self._recorder = StreamRecorder(claimed.row.stream_pk, claimed.owner, next_index=len(claimed.stored))
        self._encoder = ResponseEncoder(claimed.response, with_logprobs=claimed.request.sampling.logprobs is not None)
        self._position = 0  # number of the next event of this run
        self._usage = Usage(0, 0)
        self._received: Usage | None = None  # once the generation has ended, cancelled ones included

    async def run(self) -> None:
        """Run the response. Cancelling this makes it available to other workers at once."""
        try:
            await self._run()
        except StreamLost:  # cancelled, deleted, or another worker's
            await self._recorder.abandon()
        except Diverged:
            await self._fail(ResponseErrorDetail("server_error", UNREPEATABLE))
        except PERMANENT_ERRORS as error:
            await self._fail(error_detail(error))
        except EngineError as error:
            await self._retry_later(error)
        except ApiError as error:
            await self._handle_refusal(error)
        except DatabaseError as error:
            logger.warning("response_run_failed", response=self._response_id, reason=type(error).__name__)
            await self._recorder.abandon()  # the lease expires
        except BaseException:
            await self._recorder.abandon()
            await run_in_db_thread(requeue, claimed=self._claimed, delay=timedelta(), now=timezone.now())
            raise

    @property
    def _response_id(self) -> str:
        return self._claimed.row.response_id

    async def _run(self) -> None:
        # The engine may still have the request of a run that has lost its lease.
        request_id = f"{self._response_id}-{self._claimed.owner.hex[:8]}"
        request = replace(self._claimed.request, request_id=request_id, user=str(self._claimed.row.user_id))
        model_id = self._claimed.row.model_id
        with await admit(
            caller=self._claimed.caller,
            model_id=model_id,
            tokens=estimate_generation_tokens(request),
            records_usage=False,
        ) as admission:
            try:
                await self._generate(request)
            except StreamLost:
                await self._record_deleted()
                raise
            finally:
                if self._received is not None:
                    admission.finish(self._received)

    async def _generate(self, request: GenerationRequest) -> None:
        if self._recorder.is_cancelled:  # while it waited to be admitted
            return await self._finish(self._usage)
        async with await self._start(request) as outputs:
            outputs.add_done_callback(self._note_received)
            self._recorder.follow(outputs)
            self._record(self._encoder.start())
            self._record([self._encoder.begin()])
            async for output in outputs:
                self._add(output)
        if self._recorder.is_lost:
            raise StreamLost
        if self._recorder.is_cancelled:
            await self._finish(self._received or self._usage)
            return
        if not self._encoder.has_ended:
            raise InferenceFailed(INCOMPLETE_MESSAGE)
        await self._end()

    def _note_received(self, usage: Usage) -> None:
        self._received = usage

    async def _record_deleted(self) -> None:
        if self._received is not None:
            row, usage = self._claimed.row, self._received
            await run_in_db_thread(services.record_deleted, row=row, usage=usage, now=timezone.now())

    async def _start(self, request: GenerationRequest) -> GenerationStream:
        for _ in range(MAX_TRUNCATIONS):
            try:
                return await model_engine.generate(self._claimed.row.model_id, request)
            except ContextLengthExceeded as error:
                if self._claimed.response.truncation != "auto":
                    raise
                request = truncated(request, error)
        raise InvalidRequest("`input` could not be truncated to the model's context. Shorten it.", field="input")

    def _add(self, output: GenerationOutput) -> None:
        if output.finish_reason in (FinishReason.ERROR, FinishReason.CANCELLED):
            raise error_from_output(output)
        if output.usage is not None:
            self._usage = output.usage
        self._record(self._encoder.push(output, ended_at=time.time()))

    def _record(self, frames: Iterable[bytes]) -> None:
        """Write the events that no earlier run has written. Raise Diverged if this run differs from it."""
        for frame in frames:
            if self._position >= len(self._claimed.stored):
                self._recorder.append(frame)
            elif self._claimed.stored[self._position] != frame:
                raise Diverged
            self._position += 1

    async def _end(self) -> None:
        if self._position < len(self._claimed.stored):
            raise Diverged
        await self._finish(self._usage)

    async def _finish(self, usage: Usage) -> None:
        row, response = self._claimed.row, self._encoder.response

        def write_end(number: int) -> bytes:
            return services.end_run(row=row, response=response, number=number, now=timezone.now(), usage=usage)

        await self._recorder.finish(write_end)

    async def _fail(self, error: ResponseErrorDetail) -> None:
        """End the response with an error, after the events that are stored."""
        self._encoder.fail(error, usage=self._usage if self._usage.total_tokens else None)
        try:
            await self._finish(self._usage)
        except (StreamLost, DatabaseError) as failure:
            logger.warning("response_end_not_written", response=self._response_id, reason=type(failure).__name__)
            await self._recorder.abandon()

    async def _retry_later(self, error: EngineError) -> None:
        crashed = isinstance(error, EngineDied | InferenceFailed)
        attempts = self._claimed.row.attempts
        if crashed and attempts + 1 >= (MAX_CRASHES if isinstance(error, EngineDied) else MAX_FAILURES):
            await self._fail(ResponseErrorDetail("server_error", CRASHED))
            return
        backoff, count = (CRASH_BACKOFF, attempts + 1) if crashed else (UNAVAILABLE_BACKOFF, 1)
        delay = backoff.seconds(count, at_least=float(error.details.get("retry_after", 0)))
        logger.info("response_requeued", response=self._response_id, reason=error.code, delay=round(delay, 1))
        await self._requeue(timedelta(seconds=delay), crashed=crashed)

    async def _handle_refusal(self, error: ApiError) -> None:
        """Wait for a limit per minute; fail for a used-up quota and for a model that does not exist."""
        headers = error.problem.headers
        if error.problem.status == 429 and "X-Should-Retry" not in headers:
            await self._requeue(timedelta(seconds=min(60, ceil(float(headers.get("Retry-After", 1))))), crashed=False)
            return
        code = "rate_limit_exceeded" if error.problem.status == 429 else "invalid_prompt"
        await self._fail(ResponseErrorDetail(code, error.problem.message))  # type: ignore[arg-type]

    async def _requeue(self, delay: timedelta, *, crashed: bool) -> None:
        await self._recorder.abandon()  # events that are not written yet come again in the next run
        try:
            await run_in_db_thread(requeue, claimed=self._claimed, delay=delay, now=timezone.now(), crashed=crashed)
        except DatabaseError as failure:  # the lease expires
            logger.warning("response_not_requeued", response=self._response_id, reason=type(failure).__name__)
