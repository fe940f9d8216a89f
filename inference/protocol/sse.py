"""Server-sent events with one `data:` line of JSON each."""

from typing import Any

import msgspec

CONTENT_TYPE = "text/event-stream"
HEADERS = {"Cache-Control": "no-cache, no-transform", "X-Accel-Buffering": "no"}
KEEP_ALIVE = b": keep-alive\n\n"
DONE = b"data: [DONE]\n\n"

_encoder = msgspec.json.Encoder()


def encode_event(data: Any, name: str = "") -> bytes:
    """Return one event as the bytes of the stream. name: in a line of its own, if any."""
    event = b"data: " + _encoder.encode(data) + b"\n\n"
    return b"event: " + name.encode() + b"\n" + event if name else event
