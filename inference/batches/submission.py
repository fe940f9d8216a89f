"""Submission of POST /batch: parse the body request by request, and create the batch once per Idempotency-Key."""

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import msgspec
from django.conf import settings
from django.http import HttpRequest, HttpResponse
from msgspec import UNSET, Raw
from msgspec.structs import replace

from inference.batches.models import Batch
from inference.batches.services import NewRequest, create_batch
from inference.engine import EngineError, InvalidRequest
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


@dataclass(kw_only=True)
class ParsedBatch:
    """A valid body of POST /batch. max_priority: over all requests. tokens: estimate for all requests together."""

    model_id: str
    parameters: dict[str, Any]
    webhook_url: str | None
    requests: list[NewRequest] = field(default_factory=list)
    max_priority: int = 0
    tokens: int = 0

    def add_requests(self, request_jsons: list[Raw]) -> None:
        """Add the requests. Raises InvalidRequest for a wrong one, and for two with the same id."""
        shared_tokens, seen_ids = self._estimate_tokens({"prompt": ""}), set[str]()
        for index, piece in enumerate(request_jsons):
            raw = bytes(piece)
            try:
                request = parse_json(raw)
                parse_struct(request, BatchItem)
                if request.keys() == _PROMPT_ONLY:
                    self.tokens += shared_tokens + estimate_text_tokens(request["prompt"])
                else:
                    self.tokens += self._estimate_tokens(request)
            except (ApiError, EngineError) as error:
                raise _error_at(index, error) from None
            if request["id"] in seen_ids:
                message = f"requests[{index}]: `id` must be unique, and an earlier request has the same."
                raise InvalidRequest(message, field="requests")
            seen_ids.add(request["id"])
            self.max_priority = max(self.max_priority, request.get("priority", 0))
            self.requests.append(NewRequest(request["id"], raw.decode()))

    def _estimate_tokens(self, request: dict[str, Any]) -> int:
        """Merge the request with the batch's parameters. Raises InvalidRequest if they contradict each other."""
        body = to_inference_request(request, model_id=self.model_id, parameters=self.parameters)
        return estimate_generation_tokens(with_messages(body.generation_request(""), request))


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
    parsed = ParsedBatch(
        model_id=head.model,
        parameters={name: value for name, value in fields.items() if name not in ("model", "webhook_url")},
        webhook_url=head.webhook_url,
    )
    parsed.max_priority = int(parsed.parameters.get("priority", 0))
    parsed.add_requests(request_jsons)
    return parsed


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
