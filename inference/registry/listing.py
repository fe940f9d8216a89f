"""Models as they are told of: what is on disk, with what the model host says of it and what the operators want."""

import asyncio
import time

from django.conf import settings
from django.db import DatabaseError
from msgspec.structs import replace

from inference.engine import HostUnavailable, LoadReport, ModelState, ModelStatus
from inference.protocol import native
from inference.registry.catalog import REMOTE, ModelCard, lost_card, read_catalog
from inference.registry.processes import host, remote
from inference.registry.wanted import off_the_loop, read_wishes

HOST_ANSWERS_WITHIN_S = 3.0
RUNNING = (ModelState.LOADING, ModelState.LOADED, ModelState.UNLOADING)

_started_at = time.monotonic()


async def list_models() -> list[native.Model]:
    """Every model there is, and every one that runs or should without files on this machine. Without a model host all
    of them are unloaded."""
    catalog = await asyncio.to_thread(read_catalog)
    statuses, wanted = await _statuses_or_none() or {}, await _wanted_ids_or_none() or set()
    lost = {model_id: lost_card(model_id) for model_id in (statuses.keys() | wanted) - catalog.keys()}
    remotes = [card for card in catalog.values() if card.type == REMOTE]
    others = {model.id: model for model in await asyncio.gather(*map(_remote_model, remotes))}
    cards = dict(sorted((catalog | lost).items())).values()
    return [others.get(card.id) or _model(card, statuses.get(card.id)) for card in cards]


async def read_health() -> native.Health:
    """Degraded: no model host answers, or something that is wanted is neither loaded nor back with its next request,
    or would not come back, since its files are gone or broken."""
    statuses, wanted, loadable = await asyncio.gather(_statuses_or_none(), _wanted_ids_or_none(), _loadable_ids())
    loaded = {model_id for model_id, status in (statuses or {}).items() if status.state is ModelState.LOADED}
    resting = {model_id for model_id, status in (statuses or {}).items() if status.resting}
    is_whole = statuses is not None and wanted is not None and wanted <= (loaded | resting) & loadable
    return native.Health(
        status="healthy" if is_whole else "degraded",
        version=settings.VERSION,
        uptime_seconds=int(time.monotonic() - _started_at),
        models_loaded=len(loaded),
    )


async def is_remembered(model_id: str) -> bool:
    """Whether a model is wanted, or known to the model host, whatever is on disk."""
    return model_id in (await _wanted_ids_or_none() or ()) or model_id in (await _statuses_or_none() or ())


async def is_loaded(model_id: str) -> bool:
    """Whether a model answers on this machine, whatever is on disk."""
    status = (await _statuses_or_none() or {}).get(model_id)
    return status is not None and status.state is ModelState.LOADED


async def _loadable_ids() -> set[str]:
    catalog = await asyncio.to_thread(read_catalog)
    return {card.id for card in catalog.values() if card.error is None}


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


async def _remote_model(card: ModelCard) -> native.Model:
    health = await remote().status(card.id)
    state = ModelState.LOADED if health.error is None else ModelState.FAILED
    status = ModelStatus(model_id=card.id, state=state, error=health.error)
    return replace(_model(card, status), context_size=card.context_size or health.context_size)


def _model(card: ModelCard, status: ModelStatus | None) -> native.Model:
    state = status.state if status else ModelState.UNLOADED
    if card.error and state not in RUNNING:  # what runs needs its files no more
        state = ModelState.FAILED
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
