"""Services of stored responses: create, end, cancel, delete and read them.

Every end of a stored response passes through `record_end`. A run does so in the transaction that ends its stream
(`end_run`). Whoever cancels a response ends the response alone, and its run then ends the stream.
"""

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

import msgspec
from django.conf import settings
from django.db import transaction
from django.db.models import Q, Sum
from msgspec.structs import replace

from inference.access.responses import ObjectNotFound
from inference.access.resumption import StreamKey
from inference.engine import GenerationRequest, InvalidRequest, Usage
from inference.protocol.openai.responses.encoder import ResponseEncoder, final_event
from inference.protocol.openai.responses.items import Item
from inference.protocol.openai.responses.response import ItemList, Response, ResponseErrorDetail
from inference.responses.context import (
    InputContext,
    decode_items,
    decode_response,
    encode_items,
    encode_response,
)
from inference.responses.conversations import add_items, lock_conversation
from inference.responses.models import StoredResponse
from inference.streams import services as streams
from inference.streams.models import StoredStream
from inference.streams.services import StreamLost
from inference.usage.quotas import NO_RETRY_HEADERS, check_quotas
from inference.usage.services import record_usage
from shared.accounts.authentication import Principal
from shared.accounts.models import User
from shared.accounts.services import lock_active_user
from shared.api.errors import ApiError
from shared.api.idempotency.fingerprints import keyed_fingerprints

RESPONSE_LIFETIME = timedelta(hours=24)  # of a background response that cannot be run, as while its model is unloaded
ROW_BYTES = 1024  # a response's row and index entries without its contents
MAX_OPEN_PER_USER = 1000
OPEN_RETRY_SECONDS = 30
MAX_DELETED_PER_RUN = 100
INTERRUPTED = "The server process that ran this response has ended. Create the response again."
EXPIRED = "The response could not be run within 24 hours: its model was not available."

Status = StoredResponse.Status
# Responses whose stream nobody continues, if nobody writes it: background responses are run again.
_IS_INTERRUPTED = Q(is_background=False) | Q(ended_at__isnull=False)
_generation_encoder = msgspec.json.Encoder()
_generation_decoder = msgspec.json.Decoder(GenerationRequest)


@dataclass(frozen=True)
class NewResponse:
    """A response that is about to be stored."""

    caller: Principal
    response: Response
    context: InputContext

    @property
    def previous_response_id(self) -> str:
        return self.response.previous_response_id or ""


@transaction.atomic
def store_ended(*, new: NewResponse, response: Response, now: datetime) -> None:
    """Store a response that has ended already. Raise ApiError 401 if the user is no longer active."""
    lock_active_user(new.caller.user)
    row = _create_row(new, replace(response, status="in_progress"), now=now, stream=None)
    record_end(row=row, response=response, now=now)


@transaction.atomic(savepoint=False)
def create_streamed(
    *, new: NewResponse, owner: uuid.UUID, now: datetime, key: StreamKey | None = None
) -> StoredResponse:
    """Store a response whose stream `owner` writes. key: under which the same request finds the stream."""
    stream = _open_stream(new, now, owner=owner, key=key)
    return _create_row(new, new.response, now=now, stream=stream)


@transaction.atomic
def create_background(
    *, new: NewResponse, request: GenerationRequest, now: datetime, key: StreamKey | None = None
) -> StoredResponse:
    """Store a response that a worker runs, with the first events of its stream.

    Raise ApiError 429 if a monthly quota is used up or the user has MAX_OPEN_PER_USER responses that have not ended.
    """
    user, api_key = new.caller.user, new.caller.api_key
    check_quotas(user=user, api_key=api_key, now=now)
    lock_active_user(user)  # concurrent creations are counted one after the other
    open_count = StoredResponse.objects.for_user(user).filter(ended_at=None).count()
    if open_count >= MAX_OPEN_PER_USER:
        message = f"You have {open_count} responses that have not ended, the maximum. Wait for some of them."
        raise ApiError(429, message, headers={"Retry-After": str(OPEN_RETRY_SECONDS)} | NO_RETRY_HEADERS)
    stream = _open_stream(new, now, owner=None, key=key)
    frames = ResponseEncoder(new.response).start()
    streams.append_events(stream_pk=stream.pk, first=0, frames=frames)
    generation = _generation_encoder.encode(request).decode()
    return _create_row(new, new.response, now=now, stream=stream, generation=generation)


def read_generation(row: StoredResponse) -> GenerationRequest:
    """Return the engine's request of a background response that has not ended."""
    return _generation_decoder.decode(row.generation)


def record_end(*, row: StoredResponse, response: Response, now: datetime) -> bool:
    """Write the final response, and add its items to its conversation, unless it has ended. Return whether it had not.

    Runs in the caller's transaction. A conversation that became full during the generation takes these items all the
    same.
    """
    is_added = response.status in ("completed", "incomplete") and row.conversation_id is not None
    # Before the response, as a deletion does.
    conversation = lock_conversation(row.conversation_id) if is_added and row.conversation_id else None
    body = encode_response(response)
    ended = StoredResponse.objects.filter(pk=row.pk, ended_at=None).update(
        status=response.status,
        body=body,
        generation="",
        size=ROW_BYTES + len(body) + len(row.input_items),
        ended_at=now,
    )
    if ended and conversation is not None:
        add_items(conversation=conversation, items=[*decode_items(row.input_items), *response.output], now=now)
    return ended == 1


def end_run(
    *, row: StoredResponse, response: Response, number: int, now: datetime, usage: Usage | None = None
) -> bytes:
    """Record the end of a run, and return the last event of its stream, which has this number.

    A response that was cancelled meanwhile stays cancelled. Runs in the caller's transaction, which holds the stream's
    lock. usage: recorded with it, for a response whose usage nobody else records.
    """
    if usage is not None:
        record_usage(user_id=row.user_id, api_key_id=row.api_key_id, model_id=row.model_id, usage=usage, now=now)
    if record_end(row=row, response=response, now=now):
        return final_event(response, number)
    body = StoredResponse.objects.values_list("body", flat=True).get(pk=row.pk)
    return final_event(decode_response(body), number)


def record_deleted(*, row: StoredResponse, usage: Usage, now: datetime) -> None:
    """Record the usage of a run whose response was deleted, but of no other."""
    if not StoredResponse.objects.filter(pk=row.pk).exists():
        record_usage(user_id=row.user_id, api_key_id=row.api_key_id, model_id=row.model_id, usage=usage, now=now)


def find_response(*, user: User, response_id: str) -> StoredResponse:
    """Return the user's response. Raise ObjectNotFound."""
    row = StoredResponse.objects.for_user(user).filter(response_id=response_id).first()
    if row is None:
        raise ObjectNotFound("response", response_id)
    return row


def find_stream(*, user: User, response_id: str) -> int:
    """Return the key of the response's stream. Raise ObjectNotFound, and ApiError 404 if there are no events."""
    row = find_response(user=user, response_id=response_id)
    if row.stream_id is None:
        raise ApiError(
            404,
            f"The response {response_id!r} has no stored events: they are stored for streams and background responses, "
            "for a day after the end. Retrieve it without `stream`.",
        )
    return row.stream_id


def cancel_response(*, user: User, response_id: str, now: datetime) -> str:
    """Cancel a response that has not ended, and return its body. One that has ended is returned as it is.

    Its run ends its stream in a moment; without one it ends at once. Raise ObjectNotFound.
    """
    row = find_response(user=user, response_id=response_id)
    if row.ended_at is None:
        _end(row.pk, now, status="cancelled")
        row.refresh_from_db(fields=["body"])
    return row.body


def delete_response(*, user: User, response_id: str) -> None:
    """Delete a response with its events, and cancel it if it has not ended. Raise ObjectNotFound."""
    row = find_response(user=user, response_id=response_id)
    _delete_rows([row])


def list_input_items(*, user: User, response_id: str, after: str | None, limit: int, newest_first: bool) -> ItemList:
    """Return a page of the items that a response's request had as its input. Raise ObjectNotFound."""
    row = find_response(user=user, response_id=response_id)
    return page_of_items(decode_items(row.input_items), after=after, limit=limit, newest_first=newest_first)


def page_of_items(items: Sequence[Item], *, after: str | None, limit: int, newest_first: bool) -> ItemList:
    """Return a page of items. Raise InvalidRequest for an `after` that is not the id of one of them."""
    ordered = list(reversed(items)) if newest_first else list(items)
    ids = [str(item.id) for item in ordered]
    if after is not None:
        if after not in ids:
            raise InvalidRequest(f"`after` must be the id of an item of this list, not {after[:100]!r}.", field="after")
        ordered = ordered[ids.index(after) + 1 :]
    page = ordered[:limit]
    return ItemList(
        data=page,
        first_id=str(page[0].id) if page else "",
        last_id=str(page[-1].id) if page else "",
        has_more=len(ordered) > limit,
    )


def end_interrupted(stream_pk: int, *, now: datetime) -> bool:
    """End this stream if its writer has died. Return whether it did.

    Its response fails, unless it was cancelled before. Background responses are run again instead.
    """
    rows = StoredResponse.objects.filter(_IS_INTERRUPTED, stream=stream_pk, stream__ended_at=None)
    row, error = rows.first(), ResponseErrorDetail("server_error", INTERRUPTED)
    return row is not None and _end(row.pk, now, status="failed", error=error, only_without_writer=True)


def fail_expired(*, now: datetime) -> int:
    """Fail the background responses that could not be run in time. Return their number."""
    overdue = StoredResponse.objects.filter(ended_at=None, created_at__lte=now - RESPONSE_LIFETIME)
    error = ResponseErrorDetail("server_error", EXPIRED)
    return sum(
        _end(pk, now, status="failed", error=error, only_without_writer=True)
        for pk in list(overdue.values_list("pk", flat=True)[:MAX_DELETED_PER_RUN])
    )


def cancel_of_inactive_users(*, now: datetime) -> int:
    """Cancel the open responses of deactivated users. Return their number."""
    rows = StoredResponse.objects.filter(ended_at=None, user__is_active=False)
    return sum(_end(pk, now, status="cancelled") for pk in list(rows.values_list("pk", flat=True)))


def end_all_interrupted(*, now: datetime) -> int:
    """End the streams whose writer has died before it did. Return their number."""
    dead = StoredResponse.objects.filter(
        _IS_INTERRUPTED, Q(stream__owner=None) | Q(stream__lease_expires_at__lte=now), stream__ended_at=None
    )
    stream_pks = list(dead.values_list("stream", flat=True)[:MAX_DELETED_PER_RUN])
    return sum(end_interrupted(stream_pk, now=now) for stream_pk in stream_pks)


def delete_old_responses(*, now: datetime) -> int:
    """Delete up to MAX_DELETED_PER_RUN responses whose retention is over. Return their number."""
    old = StoredResponse.objects.filter(created_at__lte=now - settings.RESPONSE_RETENTION).exclude(ended_at=None)
    rows = list(old.order_by("created_at")[:MAX_DELETED_PER_RUN])
    _delete_rows(rows)
    return len(rows)


def delete_surplus_responses(*, now: datetime) -> int:
    """Delete the oldest responses of users above MAX_RESPONSE_BYTES_PER_USER, some per run. Return their number."""
    sizes = StoredResponse.objects.order_by().values("user").annotate(total=Sum("size"))
    deleted = 0
    for user_id, total in sizes.filter(total__gt=settings.MAX_RESPONSE_BYTES_PER_USER).values_list("user", "total"):
        surplus = total - settings.MAX_RESPONSE_BYTES_PER_USER
        rows = []
        for row in (
            StoredResponse.objects.filter(user=user_id).exclude(ended_at=None).order_by("pk")[:MAX_DELETED_PER_RUN]
        ):
            if surplus <= 0:
                break
            rows.append(row)
            surplus -= row.size
        _delete_rows(rows)
        deleted += len(rows)
    return deleted


def delete_responses_of(user: User) -> None:
    """Delete all responses of a user with their events, and cancel those that have not ended."""
    _delete_rows(list(StoredResponse.objects.for_user(user)))


@transaction.atomic
def _end(
    response_pk: int,
    now: datetime,
    *,
    status: str,
    error: ResponseErrorDetail | None = None,
    only_without_writer: bool = False,
) -> bool:
    """End a response from outside of its run, and its stream too if nobody writes it. Return whether it did.

    A writer may have sent events that are not stored yet, so it ends its stream by itself.
    """
    row = StoredResponse.objects.filter(pk=response_pk).first()
    if row is None or row.stream_id is None:
        return False
    try:
        streams.lock_stream(stream_pk=row.stream_id, owner=None)
    except StreamLost:
        return False
    state = streams.read_state(row.stream_id, now)
    has_writer = state is not None and state.has_writer
    if has_writer and only_without_writer:
        return False
    row.refresh_from_db()
    response = decode_response(row.body)
    if row.ended_at is None:
        response = replace(response, status=status, error=error)
        record_end(row=row, response=response, now=now)
    if not has_writer:
        first = streams.next_index(row.stream_id)
        streams.append_events(stream_pk=row.stream_id, first=first, frames=[final_event(response, first)])
        streams.end_stream(stream_pk=row.stream_id, now=now)
    return True


def _open_stream(new: NewResponse, now: datetime, *, owner: uuid.UUID | None, key: StreamKey | None) -> StoredStream:
    return streams.open_stream(
        user=new.caller.user,
        now=now,
        owner=owner,
        key=key.scope if key else None,
        fingerprint=keyed_fingerprints(key.fingerprint)[0] if key else "",
    )


def _create_row(
    new: NewResponse, response: Response, *, now: datetime, stream: StoredStream | None, generation: str = ""
) -> StoredResponse:
    conversation = new.context.conversation and lock_conversation(new.context.conversation.pk)  # or it was deleted
    body, input_items = encode_response(response), encode_items(new.context.new_items)
    return StoredResponse.objects.create(
        response_id=response.id,
        user=new.caller.user,
        api_key=new.caller.api_key,
        model_id=response.model,
        status=response.status,
        is_background=response.background,
        previous_response_id=new.previous_response_id,
        conversation=conversation,
        stream=stream,
        body=body,
        input_items=input_items,
        generation=generation,
        size=ROW_BYTES + len(body) + len(input_items) + len(generation),
        created_at=now,
        resume_at=now,
    )


@transaction.atomic
def _delete_rows(rows: Sequence[StoredResponse]) -> None:
    # A run that ends locks its stream before its response.
    streams.lock_streams(row.stream_id for row in rows if row.stream_id is not None)
    StoredResponse.objects.filter(pk__in=[row.pk for row in rows]).delete()
    streams.delete_streams(row.stream_id for row in rows if row.stream_id is not None)
