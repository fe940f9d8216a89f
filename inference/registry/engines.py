"""The engine of all models: those of pools have members, of which one may be local; all others run on this machine.

Import `model_engine`. Its requests are counted, timed and traced.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

from django.conf import settings

from inference.engine import (
    EmbeddingRequest,
    EmbeddingResult,
    EngineClient,
    EngineDied,
    EngineError,
    GenerationRequest,
    GenerationStream,
    HostUnavailable,
    InvalidRequest,
    ModelNotLoaded,
    ScoringRequest,
    ScoringResult,
    TokenizationRequest,
    TokenizationResult,
    Usage,
)
from inference.local.clients import engine
from inference.pools.cache import find_pool
from inference.pools.client import pool_client
from inference.pools.definitions import Pool, replica_pool
from inference.pools.overflow import order_members
from inference.registry.catalog import REMOTE
from inference.registry.instrumentation import record_request
from inference.registry.model_status import list_models
from inference.registry.services import ensure_loaded, find_model
from shared.api.errors import ApiError

R = TypeVar("R")

REASONING_OPTIONS = ("enable_thinking", "reasoning_effort", "thinking")
# A model may be evicted between its load and the request: then it is loaded again.
RETRY_TIMEOUT_SECONDS = 60.0
LOCAL_WAIT_SECONDS = 0.5  # for a local model that restarts, while other members of its pool could answer
LOAD_INTERVAL_SECONDS = 5.0  # between loads for requests that other members answer
# The capabilities of models, any of which a request needs.
CAPABLE = {
    "text-generation": {"text-generation"},
    "embeddings": {"embeddings"},
    "rerank": {"rerank", "embeddings"},
    "classification": {"classification"},
}


class ModelEngine:
    """An engine that sends each request to its model's pool, or to its process on this machine if it has none.

    `EngineClient` documents each call. Besides, every call raises ApiError MODEL_NOT_FOUND, ModelNotLoaded only if the
    request may not load the model, and InvalidRequest, with the loaded models that can, if the model cannot do it.
    """

    async def generate(self, model_id: str, request: GenerationRequest) -> GenerationStream:
        with record_request(model_id) as recorder:
            _check_template_options(model_id, request)
            traced = recorder.propagate(request)
            stream = await _run(
                model_id,
                lambda client: client.generate(model_id, traced),
                lambda pool: pool_client().generate(pool, traced),
                pool=await find_pool(model_id),
            )
        recorder.follow(stream, is_streamed=not request.coalesce_outputs)
        return stream

    async def embed(self, model_id: str, request: EmbeddingRequest) -> EmbeddingResult:
        with record_request(model_id) as recorder:
            result = await _run(
                model_id,
                lambda client: client.embed(model_id, request),
                lambda pool: pool_client().embed(pool, request),
                pool=await find_pool(model_id),
            )
        recorder.finish(Usage(result.prompt_tokens, 0))
        return result

    async def score(self, model_id: str, request: ScoringRequest) -> ScoringResult:
        with record_request(model_id) as recorder:
            if not await _is_local(model_id):
                raise await _remote_cannot_score(model_id, request)
            result = await _run(
                model_id,
                lambda client: client.score(model_id, request),
                lambda pool: pool_client().score(pool, request),
                is_scored=True,
            )
        recorder.finish(Usage(result.prompt_tokens, 0, result.cached_tokens))
        return result

    async def tokenize(self, model_id: str, request: TokenizationRequest) -> TokenizationResult:
        await _require_local(model_id)
        return await _run(model_id, lambda client: client.tokenize(model_id, request))

    async def detokenize(self, model_id: str, ids: list[int]) -> str:
        await _require_local(model_id)
        return await _run(model_id, lambda client: client.detokenize(model_id, ids))


model_engine = ModelEngine()
_background_loads: dict[str, asyncio.Task[None]] = {}


def _check_template_options(model_id: str, request: GenerationRequest) -> None:
    """Raise InvalidRequest for an option of the chat template that clients may not set.

    A template is a program of the model: clients set what switches its reasoning, and what the operator lists.
    """
    allowed = {*REASONING_OPTIONS, *settings.TEMPLATE_OPTIONS.get(model_id, ())}
    for name in request.template_options:
        if name not in allowed:
            field = f"chat_template_kwargs.{name}"
            raise InvalidRequest(
                f"`{field}` is not allowed: set {', '.join(sorted(allowed))}, or ask the operator to list it in "
                "STOA_TEMPLATE_OPTIONS.",
                field=field,
            )


async def _run(
    model_id: str,
    call: Callable[[EngineClient], Awaitable[R]],
    call_pool: Callable[[Pool], Awaitable[R]] | None = None,
    *,
    pool: Pool | None = None,
    is_scored: bool = False,
) -> R:
    """Call a model of a pool or of this machine. Folders and model host are read only if its process does not answer.

    call_pool: calls a member or a replica, by affinity and load; None: any replica will do.
    """
    if call_pool and pool and pool.local is None:
        return await call_pool(pool)
    retry_until = time.monotonic() + RETRY_TIMEOUT_SECONDS
    while True:
        try:
            if call_pool and (members := await _find_members(model_id, pool)):
                return await call_pool(members)
            return await call(engine())
        except ModelNotLoaded:
            await find_model(model_id)
            if time.monotonic() > retry_until:
                raise
            await ensure_loaded(model_id=model_id)
        except InvalidRequest as error:
            if "capability" in error.details:
                raise await _wrong_model(error, is_scored=is_scored) from None
            raise


async def _find_members(model_id: str, pool: Pool | None) -> Pool | None:
    """Return the members that a request may go to, or None for the only process of a model on this machine.

    pool: of the model, with a local member. Without other members that work is waited for that one.
    """
    if pool and pool.local and pool.local.is_draining:
        return pool
    others = pool.remote_members if pool else ()
    has_others = not all(member.is_draining for member in others)
    try:
        async with asyncio.timeout(LOCAL_WAIT_SECONDS if has_others else None):
            count = await engine().replicas(model_id)
    except (ModelNotLoaded, EngineDied, HostUnavailable, TimeoutError):
        if not has_others:
            raise
        _load_in_background(model_id)
        return Pool(model_id, others)
    if pool and pool.local:
        return await order_members(pool.local, others, count)
    return replica_pool(model_id, count) if count > 1 else None


def _load_in_background(model_id: str) -> None:
    """Load a model as a request for it would, while other members answer: if the model host lets requests load it."""
    if model_id not in _background_loads:
        task = _background_loads[model_id] = asyncio.get_running_loop().create_task(_try_load(model_id))
        task.add_done_callback(lambda _: _background_loads.pop(model_id, None))


async def _try_load(model_id: str) -> None:
    with contextlib.suppress(ApiError, EngineError):
        await ensure_loaded(model_id=model_id)
    await asyncio.sleep(LOAD_INTERVAL_SECONDS)


async def _remote_cannot_score(model_id: str, request: ScoringRequest) -> InvalidRequest:
    needed = "text-generation" if request.questions else "rerank" if request.queries else "classification"
    message = f"{model_id} runs on another server, which cannot score texts or answers. Use a model of this server."
    return await _wrong_model(InvalidRequest(message, capability=needed), is_scored=True)


async def _wrong_model(error: InvalidRequest, *, is_scored: bool) -> InvalidRequest:
    """Return the error of a request to a model of another kind, with the loaded models that could answer it.

    is_scored: whether scores are asked for, which models of other servers cannot give.
    """
    capable = CAPABLE[error.details["capability"]]
    able = [
        model.id
        for model in await list_models()
        if model.loaded and capable.intersection(model.capabilities) and not (is_scored and model.type == REMOTE)
    ]
    hint = f"Loaded models that could: {', '.join(able)}." if able else "No loaded model could: load one first."
    return InvalidRequest(f"{error.message} {hint}", field="model", loaded_models=able)


async def _is_local(model_id: str) -> bool:
    """Return whether a model has no pool, or one with a local member."""
    pool = await find_pool(model_id)
    return pool is None or pool.local is not None


async def _require_local(model_id: str) -> None:
    if not await _is_local(model_id):
        raise InvalidRequest(f"{model_id} runs on another server, which cannot tokenize for clients.", field="model")
