"""Results in the order of the requests, in pieces: none is passed over, and none too large for memory."""

from datetime import timedelta

import pytest

from inference.batches import leases, outcomes, services
from inference.batches.models import Batch
from inference.batches.outcomes import Outcome
from inference.batches.results import Piece, read_piece
from tests.inference.batches.conftest import NOW, MakeBatch

pytestmark = pytest.mark.django_db


def finish(batch: Batch, *places: int, answer: str = "{}") -> None:
    """Does all, and writes those at these places; the others are run again."""
    lease_id = leases.open_lease(batch_pk=batch.pk, worker="w", now=NOW)
    assert lease_id is not None
    claimed = leases.claim(lease_id=lease_id, batch_pk=batch.pk, most=100)
    ends = [Outcome(request=claimed[place].pk, answer=answer) for place in places]
    outcomes.store(lease_id=lease_id, batch_pk=batch.pk, outcomes=ends, now=NOW)
    outcomes.reclaim(now=NOW + timedelta(minutes=1))


def indexes(piece: Piece) -> list[int]:
    return [request.index for request in piece.requests]


def test_nothing_is_told_behind_a_gap_while_it_may_still_be_filled(make_batch: MakeBatch):
    batch = make_batch(5)
    finish(batch, 0, 1, 3)

    assert indexes(read_piece(batch, after=-1)) == [0, 1]
    assert not read_piece(batch, after=-1).is_last
    assert indexes(read_piece(batch, after=1)) == []

    services.cancel_batch(batch_pk=batch.pk, now=NOW)
    assert indexes(read_piece(batch, after=1)) == [3]
    assert read_piece(batch, after=1).is_last


def test_a_piece_is_as_large_as_asked_and_says_whether_it_is_the_last(make_batch: MakeBatch):
    batch = make_batch(4)
    finish(batch, 0, 1, 2, 3)

    first, second = read_piece(batch, after=-1, limit=2), read_piece(batch, after=1, limit=2)

    assert (indexes(first), first.is_last) == ([0, 1], False)
    assert (indexes(second), second.is_last) == ([2, 3], True)


def test_large_answers_come_in_small_pieces(make_batch: MakeBatch, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("inference.batches.results.LARGEST_PIECE", 250)
    batch = make_batch(4)
    finish(batch, 0, 1, 2, 3, answer=f'"{"x" * 98}"')

    assert indexes(read_piece(batch, after=-1)) == [0, 1]
    monkeypatch.setattr("inference.batches.results.LARGEST_PIECE", 50)
    assert indexes(read_piece(batch, after=1)) == [2]
