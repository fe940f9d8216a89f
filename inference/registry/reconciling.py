"""What the operators want, carried out on this machine, again and again: `reconcile`, which the Keeper calls."""

import asyncio
import time
from dataclasses import dataclass
from datetime import datetime
from enum import Enum

import structlog
from django.conf import settings
from django.db import DatabaseError
from django.utils import timezone

from inference.engine import EngineError, HostUnavailable, LoadOptions, ModelState, ModelStatus
from inference.registry.services import load_here, unload_here
from inference.registry.wanted import Wish, off_the_loop, read_wish, read_wishes, want_first_models, want_model
from shared.api.errors import ApiError

AGAIN_AFTER_S = 30.0

logger = structlog.get_logger(__name__)


class Work(Enum):
    LOAD = "load"
    UNLOAD = "unload"


@dataclass(frozen=True)
class Refusal:
    """A wish that could not be carried out, and until when it is left alone."""

    revision: int
    until: float


class Reconciler:
    """Loads what is wanted and not known to the model host, unloads what is wanted no more.

    also: models that are wanted from this start on, whatever was wanted before.
    """

    def __init__(self, also: list[str] | None = None) -> None:
        self._also = also or []
        self._began = False
        self._at_work: dict[str, asyncio.Task[None]] = {}
        self._refused: dict[str, Refusal] = {}

    async def reconcile(self, statuses: dict[str, ModelStatus]) -> None:
        """Begin what is to be done, by what the model host says now. Never waits for a load."""
        try:
            if not self._began:
                await off_the_loop(begin, also=self._also, now=timezone.now())
                self._began = True
            wishes = await off_the_loop(read_wishes)
        except DatabaseError as error:
            logger.warning("wanted_models_unknown", error=type(error).__name__)
            return
        for wish in wishes.values():
            if wish.model_id not in self._at_work:
                self._begin(wish, statuses.get(wish.model_id))

    def _begin(self, wish: Wish, status: ModelStatus | None) -> None:
        refused = self._refused.get(wish.model_id)
        if refused and refused.revision == wish.revision and time.monotonic() < refused.until:
            return
        if not (work := what_to_do(wish, status)):
            return
        task = self._at_work[wish.model_id] = asyncio.create_task(self._carry_out(wish, work))
        task.add_done_callback(lambda _: self._at_work.pop(wish.model_id))

    async def _carry_out(self, wish: Wish, work: Work) -> None:
        model_id = wish.model_id
        try:
            if work is Work.UNLOAD:
                await unload_here(model_id=model_id, force=False)
            else:
                await load_here(model_id=model_id, options=wish.options, revision=wish.revision, background=True)
        except HostUnavailable:
            return
        except (EngineError, ApiError) as error:
            refused = self._refused.get(model_id)
            if refused is None or refused.revision != wish.revision:  # told once
                logger.error("model_not_loaded", model=model_id, reason=str(error))
            self._refused[model_id] = Refusal(wish.revision, time.monotonic() + AGAIN_AFTER_S)


def begin(*, also: list[str], now: datetime) -> None:
    """What is wanted when a server starts: STOA_LOAD the first time of all, `also` every time."""
    want_first_models(model_ids=also or settings.LOAD_AT_START, now=now)
    for model_id in also:
        if not read_wish(model_id).is_wanted:
            want_model(model_id=model_id, options=LoadOptions(), actor=None, now=now)


def what_to_do(wish: Wish, status: ModelStatus | None) -> Work | None:
    """What a machine whose host says `status` has to do about a wish; None: nothing, or not now."""
    if status is None:
        return Work.LOAD if wish.is_wanted else None
    is_old = status.revision < wish.revision
    if not wish.is_wanted:
        return Work.UNLOAD if is_old else None
    if status.state is ModelState.FAILED:
        return Work.LOAD if is_old or not status.retry_after else None
    return Work.LOAD if is_old and status.state is not ModelState.UNLOADING else None
