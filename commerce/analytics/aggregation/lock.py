"""The lock of aggregation: the single row of `RollupState`."""

from collections.abc import Callable
from typing import TypeVar

import structlog
from django.db import OperationalError

from commerce.analytics.models import RollupState
from shared import transactions

SERIALIZATION_FAILURE, DEADLOCK_DETECTED = "40001", "40P01"

T = TypeVar("T")

logger = structlog.get_logger(__name__)


def run_exclusively(step: Callable[[RollupState], T], *, if_busy: T) -> T:
    """Run a step under the lock, in one transaction that reads one snapshot, and return its result.

    Return `if_busy`, with nothing changed, while another process has the lock or if it changed the same rows first.
    """
    try:
        with transactions.write_snapshot():
            state = lock_state()
            return if_busy if state is None else step(state)
    except OperationalError as error:
        if getattr(error.__cause__, "sqlstate", None) not in (SERIALIZATION_FAILURE, DEADLOCK_DETECTED):
            raise
        logger.info("rollup_step_conflicted", reason=type(error.__cause__).__name__)
        return if_busy


def lock_state() -> RollupState | None:
    """Return the locked row, or None while another process has it."""
    return RollupState.objects.select_for_update(skip_locked=True).filter(pk=1).first()
