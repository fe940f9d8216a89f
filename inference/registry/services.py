"""Finding, loading and unloading models."""

import asyncio
from datetime import datetime
from pathlib import Path

import structlog
from django.db import DatabaseError

from inference.engine import EngineError, InvalidRequest, LoadOptions, LoadReport, ModelNotLoaded, ModelState
from inference.local.clients import host
from inference.registry.catalog import CatalogModel, missing_model, model_not_found, read_catalog
from inference.registry.desired_state import read_desired_state, set_desired, set_undesired
from inference.registry.model_status import is_known
from shared.accounts.models import User
from shared.api.errors import ApiError
from shared.observability.metrics import Counter
from shared.serving.db_threads import run_in_db_thread

LOADS = Counter("stoa_model_loads_total", "Model loads, by outcome.", "model", "outcome")

RECONCILE_RETRY_SECONDS = 2  # a server loads what should be loaded within a second of its start

logger = structlog.get_logger(__name__)
_running_loads: set[asyncio.Task[LoadReport]] = set()  # also those whose client has disconnected


async def list_loadable_models() -> list[CatalogModel]:
    """Return the models of the catalog that can be loaded."""
    return [model for model in (await run_in_db_thread(read_catalog)).values() if model.error is None]


async def find_model(model_id: str) -> CatalogModel:
    """Return the model with this id, or raise ApiError MODEL_NOT_FOUND, which lists the available models."""
    catalog = await run_in_db_thread(read_catalog)
    if model_id not in catalog:
        missing = {model_id: missing_model(model_id)} if await is_known(model_id) else {}
        raise model_not_found(model_id, catalog | missing)
    return catalog[model_id]


async def find_loadable_model(model_id: str) -> CatalogModel:
    """Return the model with this id, or raise ApiError MODEL_NOT_FOUND also if it cannot be loaded."""
    model = await find_model(model_id)
    if model.error is not None:
        raise model_not_found(model_id, await run_in_db_thread(read_catalog) | {model_id: model})
    return model


async def load_model(*, model_id: str, options: LoadOptions, actor: User | None, now: datetime) -> LoadReport:
    """Load a model on this machine, and then set that every machine should load it, also after a restart.

    A model that is loaded with these options already is reported at once. The load continues if the caller is
    cancelled. Raise ApiError MODEL_NOT_FOUND; InvalidRequest for options that the model does not support;
    ModelLoadFailed with the reason; EngineOverloaded if there is not enough memory.
    """
    loading = asyncio.create_task(_load_and_set_desired(model_id, options, actor, now))
    _running_loads.add(loading)
    loading.add_done_callback(_running_loads.discard)
    return await asyncio.shield(loading)


async def unload_model(*, model_id: str, force: bool, actor: User | None, now: datetime) -> None:
    """Unload a model on this machine, and set that no machine should load it. Return when its process has ended.

    Unloading a model that is not loaded succeeds. A model whose files are missing can be unloaded while it is loaded
    or should be.
    """
    try:
        _require_path(await find_model(model_id))
    except ApiError:
        if not await is_known(model_id):
            raise
    await run_in_db_thread(set_undesired, model_id=model_id, actor=actor, now=now)
    await unload_from_host(model_id=model_id, force=force)


async def load_on_host(
    *, model_id: str, options: LoadOptions, revision: int | None = None, background: bool = False
) -> LoadReport:
    """Load a model on this machine without changing its desired state. Raise as `load_model` does.

    revision: of the desired state that the load carries out; None: the current one.
    """
    model = await find_model(model_id)
    path = _require_path(model)
    if model.error is not None:
        raise InvalidRequest(f"{model_id} cannot be loaded. {model.error}")
    if revision is None:
        revision = await _current_revision(model_id)
    try:
        report = await host().load(
            model_id, path, options, revision=revision, background=background, base=model.base_path
        )
    except EngineError:
        LOADS.add(1, model_id, "failed")
        raise
    if not report.is_shared:  # as when the reconciler confirms what a client has loaded
        LOADS.add(1, model_id, "loaded")
        logger.info("model_loaded", model=model_id, load_time_ms=report.load_time_ms)
    return report


async def unload_from_host(*, model_id: str, force: bool) -> None:
    """Unload a model on this machine without changing its desired state."""
    try:
        await host().unload(model_id, force=force)
    except ModelNotLoaded:
        return
    logger.info("model_unloaded", model=model_id)


async def ensure_loaded(*, model_id: str) -> None:
    """Return when the model is loaded for a request. The model host decides whether a request may load it.

    Raise ModelNotLoaded if it may not, and otherwise as `load_model` does.
    """
    model = await find_loadable_model(model_id)
    desired = await run_in_db_thread(read_desired_state, model_id)
    options = desired.options if desired.is_desired else LoadOptions()
    try:
        await host().use(model_id, _require_path(model), options, revision=desired.revision, base=model.base_path)
    except ModelNotLoaded as error:
        is_new_host = error.details.get("state") == ModelState.UNLOADED
        if desired.is_desired and is_new_host:
            message = f"{model_id} is about to be loaded; try again in a few seconds."
            raise ModelNotLoaded(message, state=ModelState.LOADING, retry_after=RECONCILE_RETRY_SECONDS) from error
        raise


async def check_model_host() -> None:
    """Raise HostUnavailable if the model host does not answer."""
    await host().models()


async def _current_revision(model_id: str) -> int:
    """Return the revision of the desired state, or 0 without a database: then nothing reconciles either."""
    try:
        return (await run_in_db_thread(read_desired_state, model_id)).revision
    except DatabaseError:
        return 0


async def _load_and_set_desired(model_id: str, options: LoadOptions, actor: User | None, now: datetime) -> LoadReport:
    """Set the desired state after a successful load only: otherwise every machine would retry a broken model."""
    revision = await _current_revision(model_id)
    report = await load_on_host(model_id=model_id, options=options, revision=revision)
    await run_in_db_thread(
        set_desired, model_id=model_id, options=options, actor=actor, now=now, since_revision=revision
    )
    return report


def _require_path(model: CatalogModel) -> Path:
    if model.path is None:
        raise InvalidRequest(f"{model.id} runs on another server: it cannot be loaded or unloaded here.")
    return model.path
