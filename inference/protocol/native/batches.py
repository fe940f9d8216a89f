"""Batches on the wire: one body with many generations, what is told of a batch, and its results."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec.structs import replace

from inference.engine import GenerationRequest, InvalidRequest
from inference.protocol.errors import ErrorCode
from inference.protocol.messages import ChatMessage
from inference.protocol.native.inference import InferenceRequest
from inference.protocol.parameters import (
    ChoiceCount,
    MaxTokens,
    Priority,
    RepeatPenalty,
    Seed,
    StopSequences,
    Temperature,
    Timeout,
    TopK,
    TopP,
)
from inference.protocol.parsing import parse_struct
from inference.protocol.sampling import SamplingParametersWithLogprobs

MAX_REQUEST_ID_LENGTH = 256
MAX_BODY_KEYS = 100
MAX_URL_LENGTH = 2048

BatchItemId = Annotated[str, Meta(min_length=1, max_length=MAX_REQUEST_ID_LENGTH, pattern=r"^[^\x00-\x1f\x7f]*$")]
WebhookCallbackUrl = Annotated[str, Meta(min_length=1, max_length=MAX_URL_LENGTH)]


class BatchState(StrEnum):
    """`completed` where some may have failed; `failed` where none could be done; the rest ended before all was done."""

    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


class BatchSamplingParameters(SamplingParametersWithLogprobs, kw_only=True, forbid_unknown_fields=True):
    """Those of POST /inference. What a request does not say is as its batch says, or else as there."""

    max_tokens: MaxTokens | UnsetType = UNSET
    temperature: Temperature | UnsetType = UNSET
    top_p: TopP | UnsetType = UNSET
    top_k: TopK | UnsetType = UNSET
    repeat_penalty: RepeatPenalty | UnsetType = UNSET
    stop: StopSequences | UnsetType | None = UNSET
    seed: Seed | UnsetType | None = UNSET
    n: ChoiceCount | UnsetType = UNSET
    timeout: Timeout | UnsetType | None = UNSET
    priority: Priority | UnsetType = UNSET


class BatchItem(BatchSamplingParameters, kw_only=True, forbid_unknown_fields=True):
    """One generation from raw text or, with `messages` in place of `prompt`, through the model's chat template; `id` is
    its own in the batch."""

    id: BatchItemId
    prompt: str | UnsetType = UNSET
    messages: Annotated[list[ChatMessage], Meta(min_length=1)] | UnsetType = UNSET


class _Conversation(Struct):
    messages: list[ChatMessage]


def with_messages(asked: GenerationRequest, request: Mapping[str, Any]) -> GenerationRequest:
    """What the engine is asked for, with the messages that the request of a batch has in place of a prompt."""
    if "messages" not in request:
        return asked
    messages = parse_struct({"messages": request["messages"]}, _Conversation).messages
    return replace(asked, prompt=None, messages=tuple(message.message() for message in messages))


def _with_prompt(fields: dict[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    if "messages" not in request:
        return fields
    if "prompt" in request:
        raise InvalidRequest("prompt and messages exclude each other: send one of them.", field="messages")
    return fields | {"prompt": ""}


class BatchHeader(BatchSamplingParameters, kw_only=True, forbid_unknown_fields=True):
    """A batch without its requests."""

    model: str
    webhook_url: Annotated[WebhookCallbackUrl, Meta(description="Told once when the batch has ended.")] | None = None


class BatchCreateRequest(BatchHeader, kw_only=True, forbid_unknown_fields=True):
    """Many generations by one model, with the parameters that they share."""

    requests: Annotated[list[BatchItem], Meta(min_length=1)]


class _Key(str):
    """A key of the body's own."""


def _new_keys() -> Callable[[type, str], _Key]:
    """For a decoder: each key once, and no more of them than a body can have."""
    keys: set[str] = set()

    def take(kind: type, key: str) -> _Key:
        if key in keys:
            raise ValueError(f"it has the key {key[:MAX_REQUEST_ID_LENGTH]!r} twice")
        if len(keys) == MAX_BODY_KEYS:
            raise ValueError(f"it has more than {MAX_BODY_KEYS} keys")
        keys.add(key)
        return _Key(key)

    return take


def split_requests(body: bytes) -> tuple[bytes, list[Raw]]:
    """The body with no requests in it, and each of these as its JSON, which shares the body's memory. InvalidRequest:
    it is no JSON object, has a key twice, or has no array of requests."""
    try:
        fields = msgspec.json.decode(body, type=dict[_Key, Raw], dec_hook=_new_keys())
        if "requests" not in fields:
            raise InvalidRequest("requests is required.", field="requests")
        pieces = msgspec.json.decode(fields.pop(_Key("requests")), type=list[Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"The body is no JSON object with an array of requests: {error}.") from None
    return msgspec.json.encode(fields), pieces


def to_inference_request(
    request: Mapping[str, Any], *, model_id: str, parameters: Mapping[str, Any]
) -> InferenceRequest:
    """The POST /inference that a request of a batch amounts to. InvalidRequest names the field that is wrong."""
    own = _with_prompt({name: value for name, value in request.items() if name not in ("id", "messages")}, request)
    return parse_struct({"model": model_id, **parameters, **own}, InferenceRequest)


def results_url(batch_id: str) -> str:
    """Where the results of a batch are, from the root of this server."""
    return f"/batch/{batch_id}/results"


class BatchCreateResponse(Struct):
    """What POST /batch answers. `webhook_secret`: of this user's webhooks, with the first of them alone."""

    batch_id: str
    status: BatchState
    total_requests: int
    created: int
    webhook_secret: str | UnsetType = UNSET


class BatchUsage(Struct):
    """True token counts of all that was answered."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int


class BatchStatusResponse(Struct):
    """A batch at one moment. Times are Unix seconds; `ended` is null while it is `processing`."""

    batch_id: str
    status: BatchState
    completed: int
    failed: int
    total: int
    results_url: str
    model: str
    created: int
    expires: int
    ended: int | None
    usage: BatchUsage


class BatchList(Struct):
    """Newest first. `next`: send it as `after` for those that follow; null at the end."""

    batches: list[BatchStatusResponse]
    next: str | None


class BatchError(Struct):
    """Why a request of a batch failed."""

    code: ErrorCode
    message: str


def _any_of(*structs: str) -> dict[str, Any]:
    return {"anyOf": [{"$ref": f"#/components/schemas/{name}"} for name in structs]}


class BatchItemResult(Struct):
    """The result of one request of a batch. Stored answers are passed on unread, so that their types are for the docs.

    The choices are in the form of the route that the batch was created for.
    """

    id: Annotated[str, Meta(description="Id of the request in its batch: its `id`, or its `custom_id` in a file.")]
    index: Annotated[int, Meta(description="Position of the request in its batch, from 0.")]
    status: Annotated[Literal["completed", "failed"], Meta(description="Whether the request succeeded.")]
    choices: Annotated[
        Annotated[
            list[Any], Meta(extra_json_schema={"items": _any_of("InferenceChoice", "ChatChoice", "CompletionChoice")})
        ]
        | None,
        Meta(
            description="Generated choices, in the form of the route that the batch was created for. Null for a failed "
            "request and for embeddings."
        ),
    ]
    usage: Annotated[
        Annotated[Any, Meta(extra_json_schema=_any_of("TokenUsage", "EmbeddingsTokenUsage"))] | None,
        Meta(description="Token usage of the request. Null if it failed."),
    ]
    error: Annotated[BatchError | None, Meta(description="Error of a failed request, otherwise null.")]
    processing_time_ms: Annotated[int, Meta(description="Time from start to end of the request in milliseconds.")]
    data: (
        Annotated[
            list[Any],
            Meta(
                description="Vectors of a request to `/v1/embeddings`; otherwise absent.",
                extra_json_schema={"items": _any_of("OpenAIEmbedding")},
            ),
        ]
        | UnsetType
    ) = UNSET


class BatchResultsPage(Struct):
    """Results in the order of the requests, as far as they have come without a gap. `next`: send it as `after` for
    those that follow; null when the batch has ended and these are the last."""

    batch_id: str
    status: BatchState
    model: str
    total: int
    completed: int
    failed: int
    results: list[BatchItemResult]
    next: int | None


class BatchEndEvent(Struct):
    """The last event of a stream of results."""

    done: Literal[True]
    status: BatchState
    total: int
    completed: int
    failed: int


class BatchListQuery(Struct, forbid_unknown_fields=True):
    """Which batches are listed: `after` this one, with this status."""

    after: Annotated[str, Meta(max_length=64)] | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    status: BatchState | None = None


class BatchResultsQuery(Struct, forbid_unknown_fields=True):
    """Which results are told: `after` the request with this index."""

    after: Annotated[int, Meta(ge=-1, le=2**31 - 1)] = -1
    limit: Annotated[int, Meta(ge=1, le=1000)] = 100
