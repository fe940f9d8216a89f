"""Responses inside batches, which are not stored: the batch's output file has them."""

from collections.abc import Mapping
from typing import Any

from inference.engine import GenerationRequest, InvalidRequest
from inference.protocol.openai.batches import reject_unsupported_in_batch
from inference.protocol.openai.responses.request import ResponseCreateRequest, parse_response_request
from inference.responses.context import InputContext, storable_items

# Fields that need a stored response, with what a client of a batch does instead.
_NEED_STORAGE = {
    "background": "a batch runs in the background anyway",
    "conversation": "send its items in `input`",
    "previous_response_id": "send what precedes in `input`",
    "store": "the batch's output file has the response",
}


def parse_batch_response(fields: Mapping[str, Any]) -> ResponseCreateRequest:
    """Return the request of a batch's line. Raise InvalidRequest, also for fields that a batch does not support."""
    body = parse_response_request(fields)
    reject_unsupported_in_batch(stream=body.stream, priority=None)
    for field, instead in _NEED_STORAGE.items():
        if getattr(body, field) not in (None, False):
            raise InvalidRequest(f"`{field}` must be absent in a batch: {instead}.", field=field)
    body.store = False
    return body


def batch_generation_request(body: ResponseCreateRequest, response_id: str) -> GenerationRequest:
    """Return the engine's request. Raise InvalidRequest for a compaction that cannot be read."""
    context = InputContext([], storable_items(body.new_items(), response_id))
    return body.generation_request(response_id, context.messages(body.instructions))
