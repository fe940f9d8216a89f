"""Streams with an Idempotency-Key: the same POST with the same key sends the same events again, or the rest of them.

A client names the last event that it has in `Last-Event-ID`. Events are stored until a day after the end.
"""

from dataclasses import dataclass

from django.http import HttpRequest
from django.utils import timezone

from inference.protocol import sse
from inference.protocol.errors import ErrorCode, native_error_body, openai_error_body
from inference.streams.models import StoredStream
from inference.streams.reader import StoredStreamResponse, check_position
from inference.streams.services import end_interrupted
from shared.accounts.authentication import Principal
from shared.accounts.middleware.idempotency import KEY_HEADER
from shared.api.errors import ApiError, ValidationFailed
from shared.api.idempotency.fingerprints import keyed_fingerprints
from shared.serving.db_threads import run_in_db_thread

POSITION_HEADER = "Last-Event-ID"
MAX_POSITION_LENGTH = 9  # digits
INTERRUPTED = "The server process of this stream has ended. Send the request again with a new Idempotency-Key."


@dataclass(frozen=True)
class StreamKey:
    """The digests under which a stream is stored: of its key and of its request."""

    scope: str
    fingerprint: str


async def resume_stream(request: HttpRequest, principal: Principal, key: StreamKey) -> StoredStreamResponse | None:
    """Return the stored stream of this key from the position that the client names, or None if there is none.

    Raise ApiError 400 for a key that was used with another body, InvalidRequest for a position that no event has, and
    ApiError 404 for a position in a stream that is not stored.
    """
    after = read_position(request)
    stream = await run_in_db_thread(StoredStream.objects.filter(key=key.scope).first)
    if stream is None:
        if after is not None:
            raise ApiError(
                404, f"No stream with this {KEY_HEADER} is stored. Leave `{POSITION_HEADER}` out to start one."
            )
        return None
    if stream.fingerprint not in keyed_fingerprints(key.fingerprint):
        raise ValidationFailed({KEY_HEADER: ["This key was used with another body. Send a new key."]})
    if after is not None:
        await check_position(stream.pk, after, field=POSITION_HEADER)
    position = -1 if after is None else after
    return stored_stream(request, principal, stream.pk, after=position)


def stored_stream(request: HttpRequest, principal: Principal, stream_pk: int, *, after: int) -> StoredStreamResponse:
    """Return a stream that ends with an error event if its writer has died."""
    frame = _interrupted_event(request.path)

    def recover(pk: int) -> bool:
        return end_interrupted(stream_pk=pk, frame=frame, now=timezone.now())

    return StoredStreamResponse(stream_pk, after=after, principal=principal, recover=recover)


def read_position(request: HttpRequest) -> int | None:
    """Return the number of the last event that the client has, or None. Raise ApiError 400 for anything else."""
    text = request.headers.get(POSITION_HEADER)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= MAX_POSITION_LENGTH):
        raise ApiError(400, f"`{POSITION_HEADER}` must be the id of an event of this stream, a number from 0.")
    return int(text)


def numbered_frame(frame: bytes, index: int) -> bytes:
    """Return an event with its number as its id."""
    return b"id: %d\n%s" % (index, frame)


def _interrupted_event(path: str) -> bytes:
    code = ErrorCode.INFERENCE_FAILED
    body = (
        openai_error_body(code, INTERRUPTED, 503) if path.startswith("/v1/") else native_error_body(code, INTERRUPTED)
    )
    return sse.encode_event(body)
