"""Claims of background responses: which worker runs which. Their streams' leases say so."""

import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import DatabaseError, transaction
from django.db.models import F, Q
from msgspec.structs import replace

from inference.engine import GenerationRequest
from inference.protocol.openai.responses.response import Response
from inference.responses.context import decode_response, encode_response
from inference.responses.models import StoredResponse
from inference.responses.services import read_generation
from inference.streams import services as streams
from shared.accounts.authentication import Principal

Status = StoredResponse.Status


@dataclass(frozen=True)
class ClaimedResponse:
    """A response to run now. stored: events that an earlier run has written."""

    row: StoredResponse
    owner: uuid.UUID
    request: GenerationRequest
    response: Response
    stored: list[bytes]

    @property
    def caller(self) -> Principal:
        """The user and the key whose limits the run counts against."""
        return Principal(user=self.row.user, permissions=frozenset(), api_key=self.row.api_key)


class UserTurns:
    """The turns of users in one worker: a claim takes the oldest response of a user with the fewest running ones.

    Among equals the next user's turn comes. A claim reads one row of an index a user, however many responses wait.
    """

    def __init__(self) -> None:
        self._last_user = 0

    def claim(self, *, limit: int, now: datetime, running: Mapping[int, int] | None = None) -> list[ClaimedResponse]:
        """Claim up to so many responses that nobody runs. running: how many this worker runs, by user id."""
        counts = Counter(running or {})
        claimed: list[ClaimedResponse] = []
        try:
            while len(claimed) < limit and (following := self._next(counts, now)):
                response_pk, stream_pk, self._last_user = following
                counts[self._last_user] += 1
                if one := _claim(response_pk, stream_pk, now):
                    claimed.append(one)
        except DatabaseError:
            if not claimed:
                raise  # what is claimed has its lease, and runs
        return claimed

    def _next(self, counts: Mapping[int, int], now: datetime) -> tuple[int, int, int] | None:
        """Return the keys of the next response, of its stream and of its user."""
        free = Q(stream__owner=None) | Q(stream__lease_expires_at__lte=now)
        rows = StoredResponse.objects.filter(
            free, stream__ended_at=None, ended_at=None, is_background=True, resume_at__lte=now
        )
        ordered = rows.order_by("user_id", "resume_at", "pk").values_list("pk", "stream", "user")
        best: tuple[int, int, int] | None = None
        for first, last in ((self._last_user, None), (0, self._last_user)):  # the users after the last one, then round
            user = first
            while (found := ordered.filter(user__gt=user).first()) and (last is None or found[2] <= last):
                if not counts.get(user := found[2]):
                    return found
                if best is None or counts[user] < counts[best[2]]:
                    best = found
        return best


def requeue(*, claimed: ClaimedResponse, delay: timedelta, now: datetime, crashed: bool = False) -> None:
    """Let the response be run again after the delay. crashed: the model's process ended during this run."""
    attempts = F("attempts") + 1 if crashed else F("attempts")
    StoredResponse.objects.filter(pk=claimed.row.pk).update(resume_at=now + delay, attempts=attempts)
    streams.release(stream_pk=claimed.row.stream_pk, owner=claimed.owner)


@transaction.atomic
def _claim(response_pk: int, stream_pk: int, now: datetime) -> ClaimedResponse | None:
    owner = uuid.uuid4()
    if not streams.take_over(stream_pk=stream_pk, owner=owner, now=now):
        return None
    row = StoredResponse.objects.select_related("user", "api_key").get(pk=response_pk)
    if row.ended_at is not None:  # cancelled meanwhile: `end_interrupted` ends its stream
        streams.release(stream_pk=stream_pk, owner=owner)
        return None
    response = decode_response(row.body)
    row.status, row.body = Status.IN_PROGRESS, encode_response(replace(response, status="in_progress"))
    row.save(update_fields=["status", "body"])
    queued = replace(response, status="queued")
    return ClaimedResponse(row, owner, read_generation(row), queued, streams.read_all(stream_pk))
