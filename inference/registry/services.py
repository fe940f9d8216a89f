"""Finding, loading and unloading models. `listing` tells of them."""

import asyncio
from datetime import datetime
from pathlib import Path

import structlog
from django.db import DatabaseError

from inference.engine import EngineError, InvalidRequest, LoadOptions, LoadReport, ModelNotLoaded, ModelState
from inference.registry.catalog import ModelCard, lost_card, model_not_found, read_catalog
from inference.registry.listing import is_remembered
from inference.registry.processes import host
from inference.registry.wanted import off_the_loop, read_wish, unwant_model, want_model
from shared.accounts.models import User
from shared.api.errors import ApiError
from shared.observability.metrics import Counter

LOADS = Counter("stoa_model_loads_total", "Loads of models that were asked for, by outcome.", "model", "outcome")

SOON_S = 2  # until what is wanted is being loaded: each server looks once a second

logger = structlog.get_logger(__name__)
_going_on: set[asyncio.Task[LoadReport]] = set()  # loads, also those whose caller has left


async def list_cards() -> list[ModelCard]:
    """Every model that can be loaded, as it is on disk."""
    return [card for card in (await asyncio.to_thread(read_catalog)).values() if card.error is None]


async def find_card(model_id: str) -> ModelCard:
    """The model with this id. ApiError MODEL_NOT_FOUND names those that there are, or says that its files are gone."""
    catalog = await asyncio.to_thread(read_catalog)
    if model_id not in catalog:
        lost = {model_id: lost_card(model_id)} if await is_remembered(model_id) else {}
        raise model_not_found(model_id, catalog | lost)
    return catalog[model_id]


async def find_loadable(model_id: str) -> ModelCard:
    """The same among those that `list_cards` lists. ApiError says why it is none of them."""
    card = await find_card(model_id)
    if card.error is not None:
        raise model_not_found(model_id, await asyncio.to_thread(read_catalog) | {model_id: card})
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
        if not await is_remembered(model_id):
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
    try:
        await host().use(model_id, _files(card), options, revision=wish.revision)
    except ModelNotLoaded as error:
        if wish.is_wanted and error.details.get("state") == ModelState.UNLOADED:  # a host that has just begun
            message = f"{model_id} is about to be loaded; ask again in a few seconds."
            raise ModelNotLoaded(message, state=ModelState.LOADING, retry_after=SOON_S) from error
        raise


async def check_models() -> None:
    """Raises HostUnavailable when no model host answers."""
    await host().models()


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
