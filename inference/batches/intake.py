"""The body of POST /batch, which may be long: looked at request by request, and kept as it came."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from django.conf import settings
from msgspec import Raw

from inference.batches.services import NewRequest
from inference.engine import EngineError, GenerationRequest, InvalidRequest
from inference.protocol.batch import BatchHead, BatchRequestBody, in_conversation, inference_body, split
from inference.protocol.parameters import parse
from inference.usage.services import tokens_of, tokens_of_text
from shared.api.errors import ApiError
from shared.api.json import parse_json

_PLAIN = {"id", "prompt"}


@dataclass(frozen=True, kw_only=True)
class ReadBatch:
    """A body that was read: every request can be run. highest_priority: of all of them; tokens: what they may take
    together, about."""

    model_id: str
    parameters: dict[str, Any]
    webhook_url: str | None
    requests: list[NewRequest]
    highest_priority: int
    tokens: int


def read_batch(body: bytes) -> ReadBatch:
    """InvalidRequest or ApiError 400 names what is wrong, and in which request. Nothing is kept of a body of which
    anything is wrong."""
    rest, pieces = split(body)
    if not 0 < len(pieces) <= settings.BATCH_MOST_REQUESTS:
        most = settings.BATCH_MOST_REQUESTS
        raise InvalidRequest(f"requests is wrong: a batch has 1 to {most} of them.", field="requests")
    given = parse_json(rest)
    head = parse(given, BatchHead)
    parameters = {name: value for name, value in given.items() if name not in ("model", "webhook_url")}
    shared = _Shared(head.model, parameters)
    priority = int(parameters.get("priority", 0))
    read = list(_read_requests(pieces, shared))
    return ReadBatch(
        model_id=head.model,
        parameters=parameters,
        webhook_url=head.webhook_url,
        requests=[one.request for one in read],
        highest_priority=max(priority, *(one.priority for one in read)),
        tokens=sum(one.tokens for one in read),
    )


class _Shared:
    """What all requests of the body have in common."""

    def __init__(self, model_id: str, parameters: dict[str, Any]) -> None:
        self.model_id, self.parameters = model_id, parameters
        self.tokens = tokens_of(self.asked({"prompt": ""}))

    def asked(self, request: dict[str, Any]) -> GenerationRequest:
        """Raises InvalidRequest: parameters may each be right, and yet contradict each other."""
        asked = inference_body(request, model_id=self.model_id, parameters=self.parameters)
        return in_conversation(asked.generation_request(""), request)


class _Read(NamedTuple):
    request: NewRequest
    priority: int
    tokens: int


def _read_requests(pieces: list[Raw], shared: _Shared) -> Iterator[_Read]:
    seen = set()
    for place, piece in enumerate(pieces):
        raw = bytes(piece)
        try:
            request = parse_json(raw)
            parse(request, BatchRequestBody)
            if request.keys() == _PLAIN:
                tokens = shared.tokens + tokens_of_text(request["prompt"])
            else:
                tokens = tokens_of(shared.asked(request))
        except (ApiError, EngineError) as error:
            raise _placed(error, place) from None
        if request["id"] in seen:
            raise InvalidRequest(f"requests[{place}].id is that of another request before it.", field="requests")
        seen.add(request["id"])
        yield _Read(NewRequest(request["id"], raw.decode()), request.get("priority", 0), tokens)


def _placed(error: ApiError | EngineError, place: int) -> InvalidRequest:
    message = error.problem.message if isinstance(error, ApiError) else error.message
    field = error.details.get("field", "") if isinstance(error, EngineError) else ""
    return InvalidRequest(f"requests[{place}]: {message}", field=f"requests[{place}].{field}".rstrip("."))
