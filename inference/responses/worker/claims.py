"""Claims of background responses: which worker runs which. Their streams' leases say so."""

import uuid
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
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
    """The turns of users in one worker: each claim takes the oldest response of the next user who waits.

    A claim reads one row of an index, however many responses wait.
    """

    def __init__(self) -> None:
        self._last_user = 0

    def claim(self, *, limit: int, now: datetime) -> list[ClaimedResponse]:
        """Claim up to so many responses that nobody runs."""
        claimed: list[ClaimedResponse] = []
        while len(claimed) < limit and (following := self._next(now)):
            response_pk, stream_pk, self._last_user = following
            if one := _claim(response_pk, stream_pk, now):
                claimed.append(one)
        return claimed

    def _next(self, now: datetime) -> tuple[int, int, int] | None:
        """Return the keys of the next response, of its stream and of its user."""
        free = Q(stream__owner=None) | Q(stream__lease_expires_at__lte=now)
        rows = StoredResponse.objects.filter(
            free, stream__ended_at=None, ended_at=None, is_background=True, resume_at__lte=now
        )
        ordered = rows.order_by("user_id", "resume_at", "pk").values_list("pk", "stream", "user")
        return ordered.filter(user__gt=self._last_user).first() or ordered.first()


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
