"""Models as the API speaks of them: what exists on disk, with what the model host says of it; loading and unloading."""

import asyncio
import time
from datetime import datetime
from pathlib import Path

import structlog
from django.conf import settings
from django.db import DatabaseError
from msgspec.structs import replace

from inference.engine import (
    EngineError,
    HostUnavailable,
    InvalidRequest,
    LoadOptions,
    LoadReport,
    ModelNotLoaded,
    ModelState,
    ModelStatus,
)
from inference.protocol import native
from inference.registry.catalog import REMOTE, ModelCard, model_not_found, read_catalog
from inference.registry.processes import host, remote
from inference.registry.wanted import off_the_loop, read_wish, read_wishes, unwant_model, want_model
from shared.accounts.models import User
from shared.api.errors import ApiError
from shared.observability.metrics import Counter

LOADS = Counter("stoa_model_loads_total", "Loads of models that were asked for, by outcome.", "model", "outcome")

logger = structlog.get_logger(__name__)
_started_at = time.monotonic()
_going_on: set[asyncio.Task[LoadReport]] = set()  # loads, also those whose caller has left

HOST_ANSWERS_WITHIN_S = 3.0


async def list_models() -> list[native.Model]:
    """Every model there is. Without a model host all of them are unloaded."""
    catalog = await asyncio.to_thread(read_catalog)
    statuses = await _statuses_or_none() or {}
    remotes = [card for card in catalog.values() if card.type == REMOTE]
    others = {model.id: model for model in await asyncio.gather(*map(_remote_model, remotes))}
    return [others.get(card.id) or _model(card, statuses.get(card.id)) for card in catalog.values()]


async def list_cards() -> list[ModelCard]:
    """Every model that can be loaded, as it is on disk."""
    return [card for card in (await asyncio.to_thread(read_catalog)).values() if card.error is None]


async def find_card(model_id: str) -> ModelCard:
    """The model with this id. ApiError MODEL_NOT_FOUND names those that there are."""
    catalog = await asyncio.to_thread(read_catalog)
    if model_id not in catalog:
        raise model_not_found(model_id, catalog)
    return catalog[model_id]


async def find_loadable(model_id: str) -> ModelCard:
    """The same among those that `list_cards` lists."""
    card = await find_card(model_id)
    if card.error is not None:
        raise model_not_found(model_id, {card.id: card for card in await list_cards()})
    return card


async def load_model(*, model_id: str, options: LoadOptions, actor: User | None, now: datetime) -> LoadReport:
    """Load a model on this machine, or answer at once when it is loaded with these options; from then on it is wanted
    with them, on every machine and after every restart. It goes on when the caller leaves.

    ApiError MODEL_NOT_FOUND; InvalidRequest: it cannot be loaded so; ModelLoadFailed has the reason; EngineOverloaded:
    there is no room for it.
    """
    loading = asyncio.create_task(_load_and_want(model_id, options, actor, now))
    _going_on.add(loading)
    loading.add_done_callback(_going_on.discard)
    return await asyncio.shield(loading)


async def unload_model(*, model_id: str, force: bool, actor: User | None, now: datetime) -> None:
    """Unload a model, here and then on every machine; what is not loaded already is as it should be. Returns when its
    process is gone. One whose files are gone can be unloaded as long as it runs here or is wanted."""
    try:
        _files(await find_card(model_id))
    except ApiError:
        if not await _is_remembered(model_id):
            raise
    await off_the_loop(unwant_model, model_id=model_id, actor=actor, now=now)
    await unload_here(model_id=model_id, force=force)


async def load_here(
    *, model_id: str, options: LoadOptions, revision: int | None = None, background: bool = False
) -> LoadReport:
    """Load a model on this machine alone, without wanting it. Raises as `load_model` does.

    revision: of the wish that this carries out; None: of the last one, which it is newer than.
    """
    card = await find_card(model_id)
    path = _files(card)
    if card.error is not None:
        raise InvalidRequest(f"{model_id} cannot be loaded. {card.error}")
    if options.context_size is not None and options.context_size > card.context_size:
        raise InvalidRequest(
            f"context_size is wrong: {model_id} takes up to {card.context_size} tokens.", field="context_size"
        )
    if revision is None:
        revision = await _last_revision(model_id)
    try:
        report = await host().load(model_id, path, options, revision=revision, background=background)
    except EngineError:
        LOADS.add(1, model_id, "failed")
        raise
    LOADS.add(1, model_id, "loaded")
    logger.info("model_loaded", model=model_id, load_time_ms=report.load_time_ms)
    return report


async def unload_here(*, model_id: str, force: bool) -> None:
    """Unload a model on this machine alone; it stays wanted if it was."""
    try:
        await host().unload(model_id, force=force)
    except ModelNotLoaded:
        return
    logger.info("model_unloaded", model=model_id)


async def ensure_loaded(*, model_id: str) -> None:
    """For a request that has come: returns when the model is loaded. The model host decides whether a request loads it.

    ModelNotLoaded: it does not. Else as `load_model`.
    """
    card = await find_loadable(model_id)
    wish = await off_the_loop(read_wish, model_id)
    options = wish.options if wish.is_wanted else LoadOptions()
    await host().use(model_id, _files(card), options, revision=wish.revision)


async def read_health() -> native.Health:
    """Degraded: no model host answers, or something that is wanted is neither loaded nor back with its next request."""
    statuses = await _statuses_or_none()
    loaded = {model_id for model_id, status in (statuses or {}).items() if status.state is ModelState.LOADED}
    wanted = await _wanted_ids_or_none()
    resting = {model_id for model_id, status in (statuses or {}).items() if status.resting}
    is_whole = statuses is not None and wanted is not None and wanted <= loaded | resting
    return native.Health(
        status="healthy" if is_whole else "degraded",
        version=settings.VERSION,
        uptime_seconds=int(time.monotonic() - _started_at),
        models_loaded=len(loaded),
    )


async def check_models() -> None:
    """Raises HostUnavailable when no model host answers."""
    await host().models()


async def _statuses_or_none() -> dict[str, ModelStatus] | None:
    try:
        async with asyncio.timeout(HOST_ANSWERS_WITHIN_S):
            return {status.model_id: status for status in await host().models()}
    except (HostUnavailable, TimeoutError):
        return None


async def _wanted_ids_or_none() -> set[str] | None:
    """None when the database does not answer. The first models are wanted before that is written down."""
    try:
        wishes = await off_the_loop(read_wishes)
    except DatabaseError:
        return None
    if not wishes:
        return set(settings.LOAD_AT_START)
    return {wish.model_id for wish in wishes.values() if wish.is_wanted}


async def _is_remembered(model_id: str) -> bool:
    """Whether a model is wanted or runs, whatever is on disk."""
    return model_id in (await _wanted_ids_or_none() or ()) or model_id in (await _statuses_or_none() or ())


async def _last_revision(model_id: str) -> int:
    """0 without a database: then there is nobody who would carry out wishes either."""
    try:
        return (await off_the_loop(read_wish, model_id)).revision
    except DatabaseError:
        return 0


async def _load_and_want(model_id: str, options: LoadOptions, actor: User | None, now: datetime) -> LoadReport:
    """Wanted only once it is loaded here: what cannot be loaded would be tried everywhere, again and again."""
    since = await _last_revision(model_id)
    report = await load_here(model_id=model_id, options=options, revision=since)
    await off_the_loop(want_model, model_id=model_id, options=options, actor=actor, now=now, since=since)
    return report


def _files(card: ModelCard) -> Path:
    if card.path is None:
        raise InvalidRequest(f"{card.id} is run by another server: it is neither loaded nor unloaded from here.")
    return card.path


async def _remote_model(card: ModelCard) -> native.Model:
    health = await remote().status(card.id)
    state = ModelState.LOADED if health.error is None else ModelState.FAILED
    status = ModelStatus(model_id=card.id, state=state, error=health.error)
    return replace(_model(card, status), context_size=card.context_size or health.context_size)


def _model(card: ModelCard, status: ModelStatus | None) -> native.Model:
    state = ModelState.FAILED if card.error else status.state if status else ModelState.UNLOADED
    model = native.Model(
        id=card.id,
        name=card.id,
        type=card.type,
        size_bytes=card.size_bytes,
        loaded=state is ModelState.LOADED,
        context_size=card.context_size,
        capabilities=list(card.capabilities),
        state=state,
        error=card.error or (status.error if status else None),
        parameters=card.parameters,
        quantization=card.quantization,
        dtype=card.dtype,
        progress=status.progress if status else None,
        resident_bytes=status.resident_bytes if status else None,
    )
    return _in_effect(model, status.report) if status and status.report else model


def _in_effect(model: native.Model, report: LoadReport) -> native.Model:
    return replace(
        model,
        context_size=report.context_size,
        quantization=model.quantization if report.quantization == "none" else report.quantization,
        dtype=report.dtype,
        device=report.device,
        memory_usage_bytes=report.memory_usage_bytes,
        load_time_ms=report.load_time_ms,
        gpu_layers=report.gpu_layers,
        batch_size=report.batch_size,
        max_sequences=report.max_sequences,
        warning=report.warning,
    )
