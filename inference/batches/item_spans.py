"""Which requests of batches are traced: one a second in each process. All of them would leave others no room."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from shared.observability import tracing
from shared.observability.request_notes import bound_notes

EVERY_S = 1.0

_lock = threading.Lock()
_next_at = 0.0


@contextmanager
def item_span(*, batch_id: str, user_id: str) -> Iterator[None]:
    """Around one request of a batch: `batch.<id>`, if it is one that is traced."""
    with (
        bound_notes(user_id=user_id),
        tracing.root(f"batch.{batch_id}", kind=tracing.SpanKind.CONSUMER, wanted=_is_time()) as span,
    ):
        failed = True
        try:
            yield
            failed = False
        finally:
            tracing.describe(span, {}, failed=failed)


def _is_time() -> bool:
    global _next_at
    with _lock:
        now = time.monotonic()
        if now < _next_at:
            return False
        _next_at = now + EVERY_S
        return True
