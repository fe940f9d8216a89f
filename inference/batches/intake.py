"""The body of POST /batch, which may be long: looked at request by request, and kept as it came."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from msgspec import Raw

from inference.batches.services import NewRequest
from inference.engine import EngineError, InvalidRequest
from inference.protocol.batch import BatchHead, BatchRequestBody, in_conversation, inference_body, split
from inference.protocol.parameters import parse
from shared.api.errors import ApiError
from shared.api.json import parse_json

_PLAIN = {"id", "prompt"}


@dataclass(frozen=True, kw_only=True)
class ReadBatch:
    """A body that was read: every request can be run. highest_priority: of all of them."""

    model_id: str
    parameters: dict[str, Any]
    webhook_url: str | None
    requests: list[NewRequest]
    highest_priority: int


def read_batch(body: bytes) -> ReadBatch:
    """InvalidRequest or ApiError 400 names what is wrong, and in which request. Nothing is kept of a body of which
    anything is wrong."""
    rest, pieces = split(body)
    if not 0 < len(pieces) <= settings.BATCH_MOST_REQUESTS:
        most = settings.BATCH_MOST_REQUESTS
        raise InvalidRequest(f"requests is wrong: a batch has 1 to {most} of them.", field="requests")
    given = {name: value for name, value in parse_json(rest).items() if name != "requests"}
    head = parse(given, BatchHead)
    parameters = {name: value for name, value in given.items() if name not in ("model", "webhook_url")}
    _check({"prompt": ""}, head.model, parameters)
    priorities = {int(parameters.get("priority", 0))}
    requests = list(_read_requests(pieces, head.model, parameters, priorities))
    return ReadBatch(
        model_id=head.model,
        parameters=parameters,
        webhook_url=head.webhook_url,
        requests=requests,
        highest_priority=max(priorities),
    )


def _read_requests(
    pieces: list[Raw], model_id: str, parameters: dict[str, Any], priorities: set[int]
) -> Iterator[NewRequest]:
    seen = set()
    for place, piece in enumerate(pieces):
        raw = bytes(piece)
        try:
            request = parse_json(raw)
            parse(request, BatchRequestBody)
            if request.keys() != _PLAIN:
                _check(request, model_id, parameters)
        except (ApiError, EngineError) as error:
            raise _placed(error, place) from None
        if request["id"] in seen:
            raise InvalidRequest(f"requests[{place}].id is that of another request before it.", field="requests")
        seen.add(request["id"])
        priorities.add(request.get("priority", 0))
        yield NewRequest(request["id"], raw.decode())


def _check(request: dict[str, Any], model_id: str, parameters: dict[str, Any]) -> None:
    """Parameters may each be right, and yet contradict each other."""
    asked = inference_body(request, model_id=model_id, parameters=parameters)
    in_conversation(asked.generation_request(""), request)


def _placed(error: ApiError | EngineError, place: int) -> InvalidRequest:
    message = error.problem.message if isinstance(error, ApiError) else error.message
    field = error.details.get("field", "") if isinstance(error, EngineError) else ""
    return InvalidRequest(f"requests[{place}]: {message}", field=f"requests[{place}].{field}".rstrip("."))
