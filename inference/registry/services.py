"""Models as the API speaks of them: what exists on disk, with what the model host says of it; loading and unloading."""

import asyncio
import time

import structlog
from django.conf import settings

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
from inference.registry.catalog import ModelCard, model_not_found, read_catalog
from inference.registry.processes import host
from shared.api.errors import ApiError

logger = structlog.get_logger(__name__)
_started_at = time.monotonic()

HOST_ANSWERS_WITHIN_S = 3.0

# What should be loaded, with its options, as this process knows it: kept up by `processes`, and by load and unload.
_wanted: dict[str, LoadOptions] = {model_id: LoadOptions() for model_id in settings.LOAD_AT_START}


# Models that would not load. They are not tried again by themselves.
_refused: set[str] = set()


def want_models(model_ids: list[str]) -> None:
    """These, with default options, are what should be loaded."""
    _wanted.clear()
    _wanted.update({model_id: LoadOptions() for model_id in model_ids})


async def load_missing(listed: set[str]) -> None:
    """Load what should be loaded and is not among `listed`, which the model host knows. What fails is logged once."""
    for model_id, options in list(_wanted.items()):
        if model_id in listed or model_id in _refused:
            continue
        try:
            await load_model(model_id=model_id, options=options)
        except HostUnavailable:
            return
        except (EngineError, ApiError) as error:
            _refused.add(model_id)
            logger.error("model_not_loaded", model=model_id, reason=str(error))


async def list_models() -> list[native.Model]:
    """Every model there is. Without a model host all of them are unloaded."""
    catalog = await asyncio.to_thread(read_catalog)
    statuses = await _statuses_or_none() or {}
    return [_model(card, statuses.get(card.id)) for card in catalog.values()]


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


async def load_model(*, model_id: str, options: LoadOptions) -> LoadReport:
    """Load a model, or answer at once when it is loaded with these options. It goes on when the caller leaves.

    ApiError MODEL_NOT_FOUND; InvalidRequest: it cannot be loaded so; ModelLoadFailed has the reason.
    """
    card = await find_card(model_id)
    if card.error is not None:
        raise InvalidRequest(f"{model_id} cannot be loaded. {card.error}")
    if options.context_size is not None and options.context_size > card.context_size:
        raise InvalidRequest(
            f"context_size is wrong: {model_id} takes up to {card.context_size} tokens.", field="context_size"
        )
    before = _wanted.get(model_id)
    _wanted[model_id] = options
    try:
        report = await host().load(model_id, card.path, options)
    except EngineError:
        _restore(model_id, before)
        raise
    _refused.discard(model_id)
    logger.info("model_loaded", model=model_id, load_time_ms=report.load_time_ms)
    return report


async def unload_model(*, model_id: str, force: bool) -> None:
    """Unload a model; what is not loaded already is as it should be. Returns when its process is gone."""
    await find_card(model_id)
    _wanted.pop(model_id, None)
    try:
        await host().unload(model_id, force=force)
    except ModelNotLoaded:
        return
    logger.info("model_unloaded", model=model_id)


async def read_health() -> native.Health:
    """Degraded: no model host answers, or something that should be loaded is not."""
    statuses = await _statuses_or_none()
    loaded = {model_id for model_id, status in (statuses or {}).items() if status.state is ModelState.LOADED}
    is_whole = statuses is not None and _wanted.keys() <= loaded
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


def _restore(model_id: str, before: LoadOptions | None) -> None:
    if before is None:
        _wanted.pop(model_id, None)
    else:
        _wanted[model_id] = before


def _model(card: ModelCard, status: ModelStatus | None) -> native.Model:
    report = status.report if status else None
    state = status.state if status else ModelState.UNLOADED
    return native.Model(
        id=card.id,
        name=card.id,
        type=card.type,
        size_bytes=card.size_bytes,
        loaded=state is ModelState.LOADED,
        context_size=report.context_size if report else card.context_size,
        capabilities=list(card.capabilities),
        state=ModelState.FAILED if card.error else state,
        error=card.error or (status.error if status else None),
    )
