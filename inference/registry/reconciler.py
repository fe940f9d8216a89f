"""The reconciler, which brings the models of this machine to the desired state. The supervisor calls `reconcile`."""

import asyncio
import time
from datetime import datetime
from enum import Enum

import structlog
from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from inference.engine import EngineError, HostUnavailable, LoadOptions, ModelState, ModelStatus
from inference.registry.desired_state import (
    DesiredState,
    read_desired_state,
    read_desired_states,
    set_desired,
    set_initially_desired,
)
from inference.registry.services import load_on_host, unload_from_host
from shared.api.errors import ApiError
from shared.serving.db_threads import run_in_db_thread

RETRY_INTERVAL_SECONDS = 30.0

logger = structlog.get_logger(__name__)


class ReconcileAction(Enum):
    LOAD = "load"
    UNLOAD = "unload"


class ModelReconciler:
    """Loads models that should be loaded and that the model host does not have, and unloads those that should not.

    also: models that should be loaded from this start on, whatever the desired state was before.
    """

    def __init__(self, also: list[str] | None = None) -> None:
        self._also = also or []
        self._is_initialized = False
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._failures: dict[str, tuple[int, float]] = {}  # failed revisions, and when to try them again

    async def reconcile(self, statuses: dict[str, ModelStatus]) -> None:
        """Start the loads and unloads that the host's statuses call for, without waiting for them."""
        try:
            if not self._is_initialized:
                await run_in_db_thread(initialize_desired_state, also=self._also, now=timezone.now())
                self._is_initialized = True
            desired_states = await run_in_db_thread(read_desired_states)
        except DatabaseError as error:
            logger.warning("desired_state_unreadable", error=type(error).__name__)
            return
        for desired in desired_states.values():
            if desired.model_id not in self._tasks:
                self._start(desired, statuses.get(desired.model_id))

    def _start(self, desired: DesiredState, status: ModelStatus | None) -> None:
        failed_revision, retry_at = self._failures.get(desired.model_id, (None, 0.0))
        if failed_revision == desired.revision and time.monotonic() < retry_at:
            return
        if not (action := choose_action(desired, status)):
            return
        task = self._tasks[desired.model_id] = asyncio.create_task(self._run(action, desired))
        task.add_done_callback(lambda _: self._tasks.pop(desired.model_id))

    async def _run(self, action: ReconcileAction, desired: DesiredState) -> None:
        model_id, revision = desired.model_id, desired.revision
        try:
            if action is ReconcileAction.UNLOAD:
                await unload_from_host(model_id=model_id, force=False)
            else:
                await load_on_host(model_id=model_id, options=desired.options, revision=revision, background=True)
        except HostUnavailable:
            return
        except (EngineError, ApiError) as error:
            if self._failures.get(model_id, (None, 0.0))[0] != revision:  # log each failure once
                logger.error("model_load_failed", model=model_id, reason=str(error))
            self._failures[model_id] = revision, time.monotonic() + RETRY_INTERVAL_SECONDS


def initialize_desired_state(*, also: list[str], now: datetime) -> None:
    """Set the desired state at a server's start: STOA_LOAD in a new installation, and `also` at every start."""
    set_initially_desired(model_ids=also or settings.LOAD_AT_START, now=now)
    for model_id in also:
        if not read_desired_state(model_id).is_desired:
            set_desired(model_id=model_id, options=LoadOptions(), actor=None, now=now)


def choose_action(desired: DesiredState, status: ModelStatus | None) -> ReconcileAction | None:
    """Return what a machine has to do, given its host's status of the model. None: nothing, or nothing for now."""
    if status is None:
        return ReconcileAction.LOAD if desired.is_desired else None
    is_old = status.revision < desired.revision
    if not desired.is_desired:
        return ReconcileAction.UNLOAD if is_old else None
    if status.state is ModelState.FAILED:
        return ReconcileAction.LOAD if is_old or not status.retry_after else None
    return ReconcileAction.LOAD if is_old and status.state is not ModelState.UNLOADING else None
