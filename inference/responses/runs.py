"""Runs of responses that belong to a connection: whole ones, and streams that go on when their client is gone."""

import asyncio
import secrets
import time
import uuid
from contextvars import Context
from dataclasses import dataclass
from functools import partial

import structlog
from django.db import Error as DatabaseError
from django.utils import timezone
from msgspec.structs import replace

from inference.access.resumption import StreamKey
from inference.engine import (
    ContextLengthExceeded,
    EngineError,
    FinishReason,
    GenerationRequest,
    GenerationStream,
    InferenceFailed,
    InvalidRequest,
    Message,
    SamplingParams,
)
from inference.generation.services import complete as complete_generation
from inference.generation.services import new_id, start_stream
from inference.pools.cache import find_pool
from inference.protocol.errors import INCOMPLETE_MESSAGE, error_from_output
from inference.protocol.openai.responses.encoder import ResponseEncoder, error_detail
from inference.protocol.openai.responses.items import CompactionItem
from inference.protocol.openai.responses.request import (
    CompactedResponse,
    CompactRequest,
    InputTokensRequest,
    ResponseContext,
    ResponseCreateRequest,
)
from inference.protocol.openai.responses.response import Response, ResponseUsage
from inference.registry.engines import model_engine
from inference.registry.services import find_loadable_model
from inference.responses import services
from inference.responses.compaction import SUMMARY_REQUEST, encrypt_summary
from inference.responses.context import InputContext, drop_oldest, read_context
from inference.responses.models import StoredResponse
from inference.responses.services import NewResponse
from inference.streams.recorder import StreamRecorder
from inference.streams.services import StreamLost
from inference.streams.shared_commits import commit
from inference.usage.services import admit
from shared.accounts.authentication import Principal
from shared.serving.db_threads import run_in_db_thread

MAX_TRUNCATIONS = 30
MAX_SUMMARY_TOKENS = 1024

logger = structlog.get_logger(__name__)
_running: set[asyncio.Task[None]] = set()  # of streams, whose clients may be gone


@dataclass(frozen=True)
class PreparedResponse:
    """A response that can be run."""

    new: NewResponse
    request: GenerationRequest
    truncates: bool
    with_logprobs: bool

    @property
    def caller(self) -> Principal:
        return self.new.caller

    def encoder(self) -> ResponseEncoder:
        return ResponseEncoder(self.new.response, with_logprobs=self.with_logprobs)


async def prepare(*, caller: Principal, body: ResponseCreateRequest) -> PreparedResponse:
    """Read what precedes the input, and return the response to run.

    Raise ObjectNotFound for a previous response or a conversation that is gone, and InvalidRequest.
    """
    response_id = new_id("resp_")
    context = await read_input(caller=caller, body=body, response_id=response_id)
    # A response that may run again gets a seed, with which it becomes the same again.
    seed = secrets.randbelow(2**31) if body.background else None
    request = body.generation_request(response_id, context.messages(body.instructions), seed=seed)
    response = body.to_response(response_id, int(time.time()), "queued" if body.background else "in_progress")
    return PreparedResponse(
        NewResponse(caller, response, context), request, body.truncation == "auto", body.has_logprobs
    )


async def read_input(*, caller: Principal, body: ResponseContext, response_id: str) -> InputContext:
    """Return the items of a request and what precedes them. Raise as `prepare` does."""
    if body.previous_response_id is None and getattr(body, "conversation", None) is None:
        return read_context(user=caller.user, body=body, response_id=response_id)  # reads no database
    return await run_in_db_thread(read_context, user=caller.user, body=body, response_id=response_id)


async def start(prepared: PreparedResponse) -> GenerationStream:
    """Start the generation within the caller's limits. Raise as `generation.services.start_stream` does."""
    request = prepared.request
    for _ in range(MAX_TRUNCATIONS):
        try:
            return await start_stream(caller=prepared.caller, model_id=prepared.new.response.model, request=request)
        except ContextLengthExceeded as error:
            if not prepared.truncates:
                raise
            request = truncated(request, error)
    raise InferenceFailed("The input could not be truncated to the model's context. Shorten it.")


def truncated(request: GenerationRequest, error: ContextLengthExceeded) -> GenerationRequest:
    """Return the request without its oldest messages, by how much it exceeds the context."""
    size, tokens = float(error.details.get("context_size", 0)), float(error.details.get("prompt_tokens", 0))
    excess = 1 - size / tokens if tokens > size > 0 else 0.0
    return replace(request, messages=drop_oldest(request.messages or (), excess))


async def complete(prepared: PreparedResponse) -> Response:
    """Run a response to its end, and store it if it is to be stored. Raise as `start` does, and for later failures."""
    encoder = prepared.encoder()
    async with await start(prepared) as outputs:
        async for output in outputs:
            if output.finish_reason in (FinishReason.ERROR, FinishReason.CANCELLED):
                raise error_from_output(output)
            encoder.push(output, ended_at=time.time())
    if not encoder.has_ended:
        raise InferenceFailed(INCOMPLETE_MESSAGE)
    if prepared.new.response.store:
        await run_in_db_thread(services.store_ended, new=prepared.new, response=encoder.response, now=timezone.now())
    return encoder.response


async def submit(prepared: PreparedResponse, key: StreamKey | None) -> StoredResponse:
    """Store a background response for a worker. Raise ApiError MODEL_NOT_FOUND and RATE_LIMIT_EXCEEDED."""
    await find_loadable_model(prepared.new.response.model)
    return await run_in_db_thread(
        services.create_background, new=prepared.new, request=prepared.request, key=key, now=timezone.now()
    )


async def start_stored_stream(prepared: PreparedResponse, key: StreamKey | None) -> int:
    """Start a response that is stored while it is generated, and return the key of its stream. Raise as `start` does.

    It goes on when the client disconnects: another connection may read the rest.
    """
    outputs = await start(prepared)
    owner = uuid.uuid4()
    try:
        row = await commit(
            partial(services.create_streamed, new=prepared.new, owner=owner, key=key, now=timezone.now())
        )
    except BaseException:
        await outputs.close()
        raise
    recorder = StreamRecorder(row.stream_pk, owner)
    # In an empty context: the run belongs to no request.
    task = asyncio.create_task(_run_stored(row, prepared.encoder(), outputs, recorder), context=Context())
    _running.add(task)
    task.add_done_callback(_running.discard)
    return row.stream_pk


async def _run_stored(
    row: StoredResponse, encoder: ResponseEncoder, outputs: GenerationStream, recorder: StreamRecorder
) -> None:
    def write_end(number: int) -> bytes:
        return services.end_run(row=row, response=encoder.response, number=number, now=timezone.now())

    try:
        async with outputs:
            recorder.follow(outputs)
            for frame in (*encoder.start(), encoder.begin()):
                recorder.append(frame)
            async for output in outputs:
                for frame in encoder.push(output, ended_at=time.time()):
                    recorder.append(frame)
                if encoder.has_ended:
                    break
        if not encoder.has_ended:
            encoder.fail(error_detail(InferenceFailed(INCOMPLETE_MESSAGE)))
        await recorder.finish(write_end)
    except StreamLost:
        await recorder.abandon()
    except (DatabaseError, EngineError) as error:  # its lease expires, and it is failed as interrupted
        logger.warning("response_not_ended", response=row.response_id, reason=type(error).__name__)
        await recorder.abandon()
    except BaseException:  # otherwise its lease would be renewed as long as the process lives
        await recorder.abandon()
        raise


async def count_input_tokens(*, caller: Principal, body: InputTokensRequest) -> int:
    """Return the number of tokens of a prompt, also of one that is longer than the context.

    Raise as `prepare` does, and InvalidRequest for a model of another server.
    """
    if await find_pool(body.model):
        message = f"{body.model} runs on another server, which cannot count tokens. Use a model of this server."
        raise InvalidRequest(message, field="model")
    request_id = new_id("resp_")
    context = await read_input(caller=caller, body=body, response_id=request_id)
    request = GenerationRequest(
        request_id=request_id,
        messages=context.messages(body.instructions),
        sampling=SamplingParams(max_tokens=1),
        user=str(caller.user.pk),
        **body.prompt_options(),
    )
    with await admit(caller=caller, model_id=body.model, tokens=0):
        try:
            async with await model_engine.generate(body.model, request) as outputs:
                return outputs.prompt_tokens
        except ContextLengthExceeded as error:
            if (tokens := error.details.get("prompt_tokens")) is None:
                raise
            return int(tokens)


async def compact(*, caller: Principal, body: CompactRequest) -> CompactedResponse:
    """Return a compaction, whose summary the model writes. Raise as `prepare` does, and for a failed generation."""
    response_id = new_id("resp_")
    context = await read_input(caller=caller, body=body, response_id=response_id)
    request = GenerationRequest(
        request_id=response_id,
        messages=(*context.messages(body.instructions), Message("user", SUMMARY_REQUEST)),
        sampling=SamplingParams(max_tokens=MAX_SUMMARY_TOKENS, temperature=0.0),
        separates_reasoning=True,
    )
    try:
        completion = await complete_generation(caller=caller, model_id=body.model, request=request)
    except ContextLengthExceeded as error:
        room = int(error.details.get("context_size", 0)) - int(error.details.get("prompt_tokens", 0))
        if room <= 0:
            raise
        request = replace(request, sampling=replace(request.sampling, max_tokens=room))
        completion = await complete_generation(caller=caller, model_id=body.model, request=request)
    item = CompactionItem(encrypted_content=encrypt_summary(completion.choices[0].text), id=new_id("cmp_"))
    return CompactedResponse(
        id=response_id,
        created_at=int(time.time()),
        output=[item],
        usage=ResponseUsage.from_engine(completion.usage),
    )
