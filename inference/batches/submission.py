"""Submission of POST /batch: parse the body request by request, and create the batch once per Idempotency-Key."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import msgspec
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from msgspec import UNSET, Raw
from msgspec.structs import replace

from inference.batches.models import Batch
from inference.batches.services import NewRequest, create_batch
from inference.engine import EngineError, GenerationRequest, InvalidRequest
from inference.protocol.native.batches import (
    BatchCreateResponse,
    BatchHeader,
    BatchItem,
    BatchState,
    split_requests,
    to_inference_request,
    with_messages,
)
from inference.protocol.parsing import parse_struct
from inference.usage.estimates import estimate_generation_tokens, estimate_text_tokens
from shared.accounts.authentication import Principal
from shared.api.errors import ApiError
from shared.api.idempotency.store import store_keyed_response
from shared.api.parsers import parse_json
from shared.webhooks.services import check_webhook_url, create_default_endpoint

_PROMPT_ONLY = {"id", "prompt"}


@dataclass(frozen=True, kw_only=True)
class ParsedBatch:
    """A valid body of POST /batch. max_priority: over all requests. tokens: estimate for all requests together."""

    model_id: str
    parameters: dict[str, Any]
    webhook_url: str | None
    requests: list[NewRequest]
    max_priority: int
    tokens: int


def parse_batch(body: bytes) -> ParsedBatch:
    """Parse the body and check every request.

    Raises InvalidRequest or ApiError 400, which name the field and the request's index.
    """
    head_json, request_jsons = split_requests(body)
    max_requests = settings.MAX_BATCH_REQUESTS
    if not 0 < len(request_jsons) <= max_requests:
        message = f"`requests` must have 1 to {max_requests} items, not {len(request_jsons)}."
        raise InvalidRequest(message, field="requests")
    fields = parse_json(head_json)
    head = parse_struct(fields, BatchHeader)
    parameters = {name: value for name, value in fields.items() if name not in ("model", "webhook_url")}
    parsed = list(_parse_requests(request_jsons, _SharedParameters(head.model, parameters)))
    return ParsedBatch(
        model_id=head.model,
        parameters=parameters,
        webhook_url=head.webhook_url,
        requests=[request.new for request in parsed],
        max_priority=max(int(parameters.get("priority", 0)), *(request.priority for request in parsed)),
        tokens=sum(request.tokens for request in parsed),
    )


class _SharedParameters:
    """The model and parameters that all requests of the body share."""

    def __init__(self, model_id: str, parameters: dict[str, Any]) -> None:
        self.model_id, self.parameters = model_id, parameters
        self.tokens = estimate_generation_tokens(self.generation_request({"prompt": ""}))

    def generation_request(self, request: dict[str, Any]) -> GenerationRequest:
        """Merge the request with the shared parameters. Raises InvalidRequest if they contradict each other."""
        body = to_inference_request(request, model_id=self.model_id, parameters=self.parameters)
        return with_messages(body.generation_request(""), request)


class _ParsedRequest(NamedTuple):
    new: NewRequest
    priority: int
    tokens: int


def _parse_requests(request_jsons: list[Raw], shared: _SharedParameters) -> Iterator[_ParsedRequest]:
    seen_ids = set()
    for index, piece in enumerate(request_jsons):
        raw = bytes(piece)
        try:
            request = parse_json(raw)
            parse_struct(request, BatchItem)
            if request.keys() == _PROMPT_ONLY:
                tokens = shared.tokens + estimate_text_tokens(request["prompt"])
            else:
                tokens = estimate_generation_tokens(shared.generation_request(request))
        except (ApiError, EngineError) as error:
            raise _error_at(index, error) from None
        if request["id"] in seen_ids:
            message = f"requests[{index}]: `id` must be unique, and an earlier request has the same."
            raise InvalidRequest(message, field="requests")
        seen_ids.add(request["id"])
        yield _ParsedRequest(NewRequest(request["id"], raw.decode()), request.get("priority", 0), tokens)


def _error_at(index: int, error: ApiError | EngineError) -> InvalidRequest:
    message = error.problem.message if isinstance(error, ApiError) else error.message
    field = error.details.get("field", "") if isinstance(error, EngineError) else ""
    return InvalidRequest(f"requests[{index}]: {message}", field=f"requests[{index}].{field}".rstrip("."))


def submit_batch(*, request: HttpRequest, caller: Principal, parsed: ParsedBatch, now: datetime) -> HttpResponse:
    """Create the batch, and store the response for the request's Idempotency-Key in the transaction that shows it.

    The stored response has no webhook secret: the secret is shown once.
    """

    def store(accepted: BatchCreateResponse) -> None:
        store_keyed_response(request, _response(accepted))

    return _response(*create_parsed_batch(caller=caller, parsed=parsed, now=now, on_created=store))


def create_parsed_batch(
    *,
    caller: Principal,
    parsed: ParsedBatch,
    now: datetime,
    on_created: Callable[[BatchCreateResponse], None] | None = None,
) -> tuple[BatchCreateResponse, str | None]:
    """Create the batch. Return the response, and the webhook secret if this is the user's first `webhook_url`.

    on_created: called with the response in the transaction that shows the batch.
    """
    if parsed.webhook_url:
        check_webhook_url(url=parsed.webhook_url)  # a DNS lookup, which may take seconds
    secrets: list[str | None] = []

    def complete(batch: Batch) -> None:
        secrets.append(create_default_endpoint(user=caller.user, now=now) if parsed.webhook_url else None)
        if on_created:
            on_created(_accepted(batch))

    batch = create_batch(
        user=caller.user,
        api_key=caller.api_key,
        kind=Batch.Kind.NATIVE,
        model_id=parsed.model_id,
        parameters=parsed.parameters,
        requests=parsed.requests,
        tokens=parsed.tokens,
        webhook_url=parsed.webhook_url or "",
        on_created=complete,
        now=now,
    )
    return _accepted(batch), secrets[-1]


def _accepted(batch: Batch) -> BatchCreateResponse:
    return BatchCreateResponse(
        batch_id=batch.batch_id,
        status=BatchState(batch.status),
        total_requests=batch.total,
        created=int(batch.created_at.timestamp()),
    )


def _response(accepted: BatchCreateResponse, secret: str | None = None) -> HttpResponse:
    body = replace(accepted, webhook_secret=secret or UNSET)
    return HttpResponse(msgspec.json.encode(body), content_type="application/json")
