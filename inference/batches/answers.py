"""What is told of batches: rows to their wire forms."""

from inference.batches.models import Batch
from inference.batches.results import read_piece, wire_result
from inference.protocol import batch as wire
from shared.accounts.models import User
from shared.api.errors import ApiError


def find_batch(*, user: User, batch_id: str) -> Batch:
    """One of theirs. ApiError 404 for another's as for none."""
    batch = Batch.objects.for_user(user).filter(batch_id=batch_id.replace("\x00", "")).first()
    if batch is None:
        raise ApiError(404, "There is no such batch, or it is not yours. GET /batch lists yours.")
    return batch


def batch_status(batch: Batch) -> wire.BatchStatus:
    tokens = batch.prompt_tokens, batch.completion_tokens
    return wire.BatchStatus(
        batch_id=batch.batch_id,
        status=wire.BatchState(batch.status),
        completed=batch.completed,
        failed=batch.failed,
        total=batch.total,
        results_url=wire.results_url(batch.batch_id),
        model=batch.model_id,
        created=int(batch.created_at.timestamp()),
        expires=int(batch.expires_at.timestamp()),
        ended=int(batch.ended_at.timestamp()) if batch.ended_at else None,
        usage=wire.BatchUsage(*tokens, sum(tokens)),
    )


def batch_list(*, user: User, query: wire.ListQuery) -> wire.BatchList:
    """ApiError 404 where `after` is none of theirs."""
    batches = Batch.objects.for_user(user)
    if query.status:
        batches = batches.filter(status=query.status)
    if query.after:
        batches = batches.filter(pk__lt=find_batch(user=user, batch_id=query.after).pk)
    found = list(batches[: query.limit + 1])
    told = found[: query.limit]
    return wire.BatchList(
        batches=[batch_status(batch) for batch in told],
        next=told[-1].batch_id if len(found) > len(told) else None,
    )


def results_page(*, batch: Batch, query: wire.ResultsQuery) -> wire.BatchResults:
    """The status is looked up after the results, so that no count is behind what is shown."""
    piece = read_piece(batch, after=query.after, limit=query.limit)
    batch.refresh_from_db()
    return wire.BatchResults(
        batch_id=batch.batch_id,
        status=wire.BatchState(batch.status),
        model=batch.model_id,
        total=batch.total,
        completed=batch.completed,
        failed=batch.failed,
        results=[wire_result(request) for request in piece.requests],
        next=None if piece.is_last else piece.requests[-1].index if piece.requests else query.after,
    )
