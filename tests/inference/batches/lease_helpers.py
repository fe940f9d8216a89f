"""Short forms of the worker's calls for tests: acquire a lease, claim requests, record outcomes."""

import uuid

from inference.batches.models import Batch, BatchRequest
from inference.batches.worker import leases, recording
from inference.batches.worker.recording import RequestOutcome
from tests.inference.batches.conftest import NOW


def acquire(batch: Batch, worker: str = "w") -> uuid.UUID:
    lease_id = leases.acquire_lease(batch_pk=batch.pk, worker=worker, now=NOW)
    assert lease_id is not None
    return lease_id


def claim(batch: Batch, lease_id: uuid.UUID, limit: int = 10) -> list[int]:
    claimed = leases.claim_requests(lease_id=lease_id, batch_pk=batch.pk, limit=limit)
    return [request.pk for request in claimed]


def claim_isolated(batch: Batch, lease_id: uuid.UUID) -> list[int]:
    claimed = leases.claim_isolated_request(lease_id=lease_id, batch_pk=batch.pk, model_id=batch.model_id)
    return [request.pk for request in claimed]


def record(batch: Batch, lease_id: uuid.UUID, *requests: int, error_code: str = "") -> bool:
    answer = "" if error_code else "{}"
    outcomes = [RequestOutcome(request=pk, answer=answer, error_code=error_code) for pk in requests]
    return recording.record_outcomes(lease_id=lease_id, batch_pk=batch.pk, outcomes=outcomes, now=NOW)


def statuses(batch: Batch) -> list[str]:
    return list(BatchRequest.objects.filter(batch=batch).order_by("index").values_list("status", flat=True))


def counts(batch: Batch) -> tuple[str, int, int, int]:
    """Return status, completed, failed and total from the database."""
    batch.refresh_from_db()
    return batch.status, batch.completed, batch.failed, batch.total
