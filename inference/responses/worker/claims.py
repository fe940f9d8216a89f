"""Claims of background responses: which worker runs which. Their streams' leases say so."""

import uuid
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import F, Q, Window
from django.db.models.functions import RowNumber
from msgspec.structs import replace

from inference.engine import GenerationRequest
from inference.protocol.openai.responses.response import Response
from inference.responses.context import decode_response, encode_response
from inference.responses.models import StoredResponse
from inference.responses.services import read_generation
from inference.streams import services as streams
from shared.accounts.authentication import Principal

MAX_CANDIDATES = 200

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


def claim_responses(*, limit: int, running: Mapping[int, int], now: datetime) -> list[ClaimedResponse]:
    """Claim responses that nobody runs: users take turns, and each user's oldest comes first.

    running: number of responses that this worker runs, by user.
    """
    free = Q(stream__owner=None) | Q(stream__lease_expires_at__lte=now)
    rows = StoredResponse.objects.filter(
        free, stream__ended_at=None, ended_at=None, is_background=True, resume_at__lte=now
    )
    turn = Window(RowNumber(), partition_by=F("user"), order_by=[F("resume_at").asc(), F("pk").asc()])
    fair = rows.annotate(turn=turn).order_by("turn", "resume_at", "pk")
    candidates = list(fair.values_list("pk", "user", "stream")[:MAX_CANDIDATES])
    if not candidates:
        return []
    counts = Counter(running)
    ranked = []
    for position, (pk, user_id, stream_pk) in enumerate(candidates):
        ranked.append((counts[user_id], position, pk, stream_pk))
        counts[user_id] += 1
    claimed: list[ClaimedResponse] = []
    for _, _, pk, stream_pk in sorted(ranked):
        if len(claimed) == limit:
            break
        if one := _claim(pk, stream_pk, now):
            claimed.append(one)
    return claimed


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
    response = decode_response(row.body)
    row.status, row.body = Status.IN_PROGRESS, encode_response(replace(response, status="in_progress"))
    row.save(update_fields=["status", "body"])
    queued = replace(response, status="queued")
    return ClaimedResponse(row, owner, read_generation(row), queued, streams.read_all(stream_pk))
