"""Checks of this installation, for `stoa doctor` and the admin's health page."""

import asyncio
import os
import shutil
from pathlib import Path

from django.conf import settings

from inference.batches.models import Batch
from inference.config.celery import app, waiting
from inference.engine import EngineError, ModelState, ModelStatus
from inference.local.clients import host
from inference.pools.cache import read_pools
from inference.pools.states import check_members
from inference.registry.catalog import read_catalog
from inference.registry.models import DesiredModel
from shared.accounts.models import User
from shared.observability.checks import (
    Check,
    Finding,
    check_database,
    check_disk,
    check_redis,
    check_version,
    check_workers,
)
from shared.serving.storage_checks import written_folders
from shared.webhooks.checks import check_webhooks


def check_accounts() -> list[Finding]:
    """Return whether anybody can sign in."""
    if User.objects.filter(is_active=True).exists():
        return []
    return [Finding("accounts", False, "There are no users.", "Create a super admin with: stoa createsuperuser")]


def check_queues() -> list[Finding]:
    """Return whether workers answer, and how many batches are unfinished."""
    findings = check_workers(app, waiting)
    open_batches = Batch.objects.filter(status=Batch.Status.PROCESSING).count()
    return [*findings, Finding("batches", True, f"{open_batches} are processed.")]


def check_model_host() -> list[Finding]:
    """Return whether the model host answers, and which models should be loaded and are not."""
    try:
        statuses = {status.model_id: status for status in asyncio.run(host().models())}
    except EngineError:
        return [Finding("model host", False, f"None answers in {settings.RUN_DIR}.", "Start it with: stoa serve")]
    count = sum(status.state is ModelState.LOADED for status in statuses.values())
    desired = DesiredModel.objects.filter(is_desired=True).values_list("model_id", flat=True)
    missing = [_missing_model(model_id, statuses.get(model_id)) for model_id in desired]
    failed = [finding for status in statuses.values() for finding in _failed_replicas(status)]
    return [Finding("model host", True, f"{count} models are loaded."), *filter(None, missing), *failed]


def _missing_model(model_id: str, status: ModelStatus | None) -> Finding | None:
    """Return the problem of a model that operators want loaded; None if it is, or will be at the next request."""
    if status and (status.state is ModelState.LOADED or status.suspended):
        return None
    state = status.state.value if status else ModelState.UNLOADED.value
    reason = f" {status.error}" if status and status.error else ""
    advice = f"stoa models load {model_id} tries again; stoa models unload {model_id} gives it up."
    return Finding("model", False, f"{model_id} should be loaded, and is {state}.{reason}", advice)


def _failed_replicas(status: ModelStatus) -> list[Finding]:
    """Return the replicas that crashed repeatedly, while others run the model."""
    advice = "It is started again after a pause. The model host's log has the reason."
    return [
        Finding("model", False, f"Replica {one.number} of {status.model_id} failed: {one.error}", advice)
        for one in status.replicas
        if one.state is ModelState.FAILED
    ]


def check_models() -> list[Finding]:
    """Return which folders of models cannot be read, and which models cannot be loaded.

    Only those in the operator's folders are problems: a built-in adapter may be of a model that nobody wants here.
    """
    advice = "Create it, or correct STOA_MODELS_DIR."
    findings = [
        Finding("model folder", False, f"{folder} cannot be read.", advice)
        for folder in settings.MODELS_DIRS
        if folder != settings.VAR_DIR / "models" and not os.access(folder, os.R_OK | os.X_OK)
    ]
    catalog = read_catalog().values()
    findings += [
        Finding("model", not model.path or model.path.parent not in settings.MODELS_DIRS, f"{model.id}: {model.error}")
        for model in catalog
        if model.error
    ]
    usable = [model.id for model in catalog if not model.error]
    return [*findings, Finding("models", bool(usable), ", ".join(usable) or "There are none.")]


def check_pools() -> list[Finding]:
    """Return which members of pools cannot be used, or have something wrong with them."""
    states = check_members(member for pool in read_pools().values() for member in pool.members)
    wrong = [state for state in states if state.error or state.warning]
    advice = "stoa pools lists and tests members, and the admin (Pools) changes them."
    return [
        Finding("pool member", False, f"{'/'.join(one.member.key)}: {one.error or one.warning}", advice)
        for one in wrong
    ]


def check_deliveries() -> list[Finding]:
    """Return whether deliveries of webhooks failed for good lately."""
    return check_webhooks("stoa webhooks failed lists them, stoa webhooks redeliver sends them again.")


def check_data_folders() -> list[Finding]:
    """Return whether the folders of data can be written and have room."""
    return check_disk([*written_folders(), Path(settings.MEDIA_ROOT), settings.RUN_DIR])


def check_compiler() -> list[Finding]:
    """Return whether the engine can compile its kernels here."""
    compiler = next(filter(None, map(shutil.which, ("c++", "g++", "clang++"))), None)
    return [Finding("compiler", True, compiler or "None: models run on torch alone. With g++ they are faster.")]


CHECKS: tuple[Check, ...] = (
    check_version,
    check_database,
    check_accounts,
    check_redis,
    check_queues,
    check_model_host,
    check_models,
    check_pools,
    check_deliveries,
    check_data_folders,
    check_compiler,
)
