"""The list of models and the service's health, from the catalog, the model host and the desired state."""

import asyncio
import time
from collections.abc import Iterable

from django.conf import settings
from django.db import DatabaseError
from msgspec.structs import replace

from inference.engine import HostUnavailable, LoadReport, ModelState, ModelStatus, ReplicaStatus
from inference.local.clients import host
from inference.pools.definitions import Pool
from inference.pools.states import describe_failure, read_states
from inference.protocol.native.health import HealthResponse
from inference.protocol.native.models import ModelInfo, PoolMemberInfo, ReplicaInfo
from inference.registry.catalog import CatalogModel, missing_model, read_catalog
from inference.registry.desired_state import read_desired_states
from shared.serving.db_threads import run_in_db_thread

HOST_TIMEOUT_SECONDS = 3.0
RUNNING_STATES = (ModelState.LOADING, ModelState.LOADED, ModelState.UNLOADING)
_REPORTED_FIELDS = set(LoadReport.__struct_fields__).intersection(ModelInfo.__struct_fields__)  # in effect, and costs

_started_at = time.monotonic()


async def list_models(*, with_members: bool = False) -> list[ModelInfo]:
    """Return all models of the catalog, and those that are loaded or should be but have no files on this machine.

    Without a model host, all local models are unloaded. with_members: also the members of pools, whose names are those
    of internal hosts: for operators only.
    """
    catalog = await run_in_db_thread(read_catalog)
    statuses, desired = await _read_statuses() or {}, await _read_desired_ids() or set()
    missing = {model_id: missing_model(model_id) for model_id in (statuses.keys() | desired) - catalog.keys()}
    pool_models = [
        _pool_model_info(model, model.pool, statuses.get(model.id), with_members)
        for model in catalog.values()
        if model.pool
    ]
    pool_infos = {info.id: info for info in await asyncio.gather(*pool_models)}
    models = dict(sorted((catalog | missing).items())).values()
    return [pool_infos.get(model.id) or _model_info(model, statuses.get(model.id)) for model in models]


async def read_health() -> HealthResponse:
    """Return the service's health.

    It is degraded without a model host or database, and while a model that should be loaded is neither loaded nor
    suspended until its next request, or could not be loaded again because its files are missing or broken.
    """
    statuses, desired, loadable = await asyncio.gather(_read_statuses(), _read_desired_ids(), _read_loadable_ids())
    loaded = {model_id for model_id, status in (statuses or {}).items() if status.state is ModelState.LOADED}
    suspended = {model_id for model_id, status in (statuses or {}).items() if status.suspended}
    is_healthy = statuses is not None and desired is not None and desired <= (loaded | suspended) & loadable
    return HealthResponse(
        status="healthy" if is_healthy else "degraded",
        version=settings.VERSION,
        uptime_seconds=int(time.monotonic() - _started_at),
        models_loaded=len(loaded),
    )


async def is_known(model_id: str) -> bool:
    """Return whether a model should be loaded or is known to the model host, even if it has no files."""
    return model_id in (await _read_desired_ids() or ()) or model_id in (await _read_statuses() or ())


async def is_loaded(model_id: str) -> bool:
    """Return whether a model is loaded on this machine, even if it has no files."""
    status = (await _read_statuses() or {}).get(model_id)
    return status is not None and status.state is ModelState.LOADED


async def _read_loadable_ids() -> set[str]:
    catalog = await run_in_db_thread(read_catalog)
    return {model.id for model in catalog.values() if model.error is None}


async def _read_statuses() -> dict[str, ModelStatus] | None:
    """Return the model host's statuses by model id, or None if it does not answer."""
    try:
        async with asyncio.timeout(HOST_TIMEOUT_SECONDS):
            return {status.model_id: status for status in await host().models()}
    except (HostUnavailable, TimeoutError):
        return None


async def _read_desired_ids() -> set[str] | None:
    """Return the ids of models that should be loaded, or None if the database does not answer.

    A new installation's initial models count before they are in the database.
    """
    try:
        desired_states = await run_in_db_thread(read_desired_states)
    except DatabaseError:
        return None
    if not desired_states:
        return set(settings.LOAD_AT_START)
    return {desired.model_id for desired in desired_states.values() if desired.is_desired}


async def _pool_model_info(model: CatalogModel, pool: Pool, local: ModelStatus | None, with_members: bool) -> ModelInfo:
    """Return a model of other servers. It is loaded while a member of its pool can take requests.

    local: the status of a local model that is a member, which is shown unless it is not loaded and another one answers.
    """
    states = await read_states(pool.members)
    error = describe_failure(states, with_members=with_members)
    status = ModelStatus(model_id=model.id, state=ModelState.FAILED if error else ModelState.LOADED, error=error)
    reported = min((one.context_size for one in states if one.context_size), default=0)
    if model.path and (error or (local and local.state in RUNNING_STATES)):
        info = _model_info(model, local)
    else:
        info = replace(_model_info(model, status), context_size=model.context_size or reported)
    if not with_members:
        return info
    return replace(info, members=[PoolMemberInfo(one.member.name, one.state, one.error, one.warning) for one in states])


def _model_info(model: CatalogModel, status: ModelStatus | None) -> ModelInfo:
    state = status.state if status else ModelState.UNLOADED
    if model.error and state not in RUNNING_STATES:  # a running model no longer needs its files
        state = ModelState.FAILED
    info = ModelInfo(
        id=model.id,
        name=model.id,
        type=model.type,
        size_bytes=model.size_bytes,
        loaded=state is ModelState.LOADED,
        context_size=model.context_size,
        capabilities=list(model.capabilities),
        state=state,
        error=model.error or (status.error if status else None),
        base=model.base,
        parameters=model.parameters,
        quantization=model.quantization,
        dtype=model.dtype,
        progress=status.progress if status else None,
        resident_bytes=status.resident_bytes if status else None,
        cache_bytes=status.cache_bytes if status else None,
        replica_states=_replica_infos(status.replicas) if status and status.replicas else None,
    )
    if status is None or status.report is None:
        return info
    reported = {name: getattr(status.report, name) for name in _REPORTED_FIELDS}
    if status.report.quantization == "none":
        reported["quantization"] = info.quantization
    return replace(info, **reported)


def _replica_infos(replicas: Iterable[ReplicaStatus]) -> list[ReplicaInfo]:
    return [ReplicaInfo(one.number, one.state, one.error, one.device, one.resident_bytes) for one in replicas]
