"""A batch as OpenAI's clients know it."""

from datetime import datetime

from inference.batches.models import Batch
from inference.openai_batches.models import FileBatch
from inference.protocol.openai_batches import BatchError, BatchErrors, OpenAIBatch, RequestCounts, Status

WINDOW = "24h"
# What an ended job is while its files are written, and afterwards; where nothing worked it is completed all the same.
_ENDING: dict[str, Status] = {Batch.Status.CANCELLED: "cancelling"}
_ENDED: dict[str, Status] = {Batch.Status.CANCELLED: "cancelled", Batch.Status.EXPIRED: "expired"}


def status_of(made: FileBatch) -> Status:
    """Where the batch is."""
    if made.job is None:
        return "failed"
    if made.job.ended_at is None:
        return "in_progress"
    if made.finished_at is None:
        return _ENDING.get(made.job.status, "finalizing")
    return _ENDED.get(made.job.status, "completed")


def wire_batch(made: FileBatch) -> OpenAIBatch:
    """A file that was wrong has no job, and so no times but that of its failure."""
    job, status = made.job, status_of(made)
    ended = {status: _seconds(made.finished_at)}
    return OpenAIBatch(
        id=made.batch_id,
        object="batch",
        endpoint=made.endpoint,
        model=job.model_id if job else None,
        errors=BatchErrors("list", [BatchError(**error) for error in made.errors]) if made.errors else None,
        input_file_id=made.input_file_id,
        completion_window=WINDOW,
        status=status,
        output_file_id=made.output_file_id or None,
        error_file_id=made.error_file_id or None,
        created_at=int(made.created_at.timestamp()),
        in_progress_at=_seconds(job.created_at) if job else None,
        expires_at=_seconds(job.expires_at) if job else None,
        finalizing_at=_seconds(job.ended_at) if job and job.status != Batch.Status.CANCELLED else None,
        completed_at=ended.get("completed"),
        failed_at=ended.get("failed"),
        expired_at=ended.get("expired"),
        cancelling_at=_seconds(job.ended_at) if job and job.status == Batch.Status.CANCELLED else None,
        cancelled_at=ended.get("cancelled"),
        request_counts=_counts(job),
        metadata=made.metadata,
    )


def _counts(job: Batch | None) -> RequestCounts:
    return RequestCounts(job.total, job.completed, job.failed) if job else RequestCounts(0, 0, 0)


def _seconds(time: datetime | None) -> int | None:
    return int(time.timestamp()) if time else None
