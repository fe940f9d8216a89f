"""Wire structs of /batch: a body with many generations, the status of a batch, and its results."""

from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Raw, Struct, UnsetType
from msgspec.structs import replace

from inference.engine import GenerationRequest, InvalidRequest
from inference.protocol.errors import ErrorCode
from inference.protocol.fields import ModelId, ProcessingTime, Prompt
from inference.protocol.messages import ChatMessage
from inference.protocol.native.errors import ErrorText
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

BATCH_ID_EXAMPLE = "batch_0d6d4a4f2b1f5c6e7a8b9c0d"
BatchItemId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_REQUEST_ID_LENGTH,
        pattern=r"^[^\x00-\x1f\x7f]*$",
        description="Id of the request, chosen by the client and unique in the batch.",
        examples=["kettle"],
    ),
]
BatchId = Annotated[str, Meta(description="Id of the batch.", examples=[BATCH_ID_EXAMPLE])]
CompletedCount = Annotated[int, Meta(description="Number of requests that succeeded.", examples=[2])]
FailedCount = Annotated[int, Meta(description="Number of requests that failed.", examples=[0])]
TotalCount = Annotated[int, Meta(description="Number of requests.", examples=[2])]


class BatchState(StrEnum):
    """States of a batch; all but `processing` are final."""

    PROCESSING = "processing"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"
    EXPIRED = "expired"


BatchStatus = Annotated[
    BatchState,
    Meta(
        description="`processing`; `completed`, even if some requests failed; `failed` if all failed; or `cancelled` "
        "or `expired` before all requests were done."
    ),
]


class BatchSamplingParameters(SamplingParametersWithLogprobs, kw_only=True, forbid_unknown_fields=True):
    """Parameters of POST /inference. A request inherits those of its batch, which has the defaults of that route."""

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
    """One generation from raw text or, with `messages` in place of `prompt`, through the model's chat template."""

    id: BatchItemId
    prompt: Prompt | UnsetType = UNSET
    messages: (
        Annotated[
            list[ChatMessage],
            Meta(
                min_length=1,
                description="Messages of a conversation, which pass through the model's chat template; in place of "
                "`prompt`.",
            ),
        ]
        | UnsetType
    ) = UNSET


class _ItemMessages(Struct):
    messages: list[ChatMessage]


def with_messages(generation: GenerationRequest, request: Mapping[str, Any]) -> GenerationRequest:
    """Return the engine's request with the messages that a request of a batch has in place of a prompt."""
    if "messages" not in request:
        return generation
    messages = parse_struct({"messages": request["messages"]}, _ItemMessages).messages
    return replace(generation, prompt=None, messages=tuple(message.to_engine() for message in messages))


def _with_prompt(fields: dict[str, Any], request: Mapping[str, Any]) -> dict[str, Any]:
    if "messages" not in request:
        return fields
    if "prompt" in request:
        raise InvalidRequest("`prompt` and `messages` exclude each other: send one of them.", field="messages")
    return fields | {"prompt": ""}


class BatchHeader(BatchSamplingParameters, kw_only=True, forbid_unknown_fields=True):
    """A batch without its requests."""

    model: ModelId
    webhook_url: (
        Annotated[
            str,
            Meta(
                min_length=1,
                max_length=MAX_URL_LENGTH,
                description="URL that receives a signed message when the batch has ended.",
                examples=["https://hooks.example.com/stoa"],
            ),
        ]
        | None
    ) = None


class BatchCreateRequest(BatchHeader, kw_only=True, forbid_unknown_fields=True):
    """Many generations by one model, with the parameters that they share."""

    requests: Annotated[list[BatchItem], Meta(min_length=1, description="Requests of the batch.")]


class _Key(str):
    """A key of the top level of a body."""


def _key_decoder() -> Callable[[type, str], _Key]:
    """Return a decoder hook that refuses repeated keys and more than MAX_BODY_KEYS."""
    keys: set[str] = set()

    def decode(kind: type, key: str) -> _Key:
        if key in keys:
            raise ValueError(f"it has the key {key[:MAX_REQUEST_ID_LENGTH]!r} twice")
        if len(keys) == MAX_BODY_KEYS:
            raise ValueError(f"it has more than {MAX_BODY_KEYS} keys")
        keys.add(key)
        return _Key(key)

    return decode


def split_requests(body: bytes) -> tuple[bytes, list[Raw]]:
    """Return the body without its requests, and the JSON of each request, which shares the body's memory.

    Raise InvalidRequest if the body is no JSON object, repeats a key, or has no array of requests.
    """
    try:
        fields = msgspec.json.decode(body, type=dict[_Key, Raw], dec_hook=_key_decoder())
        if "requests" not in fields:
            raise InvalidRequest("`requests` is required.", field="requests")
        pieces = msgspec.json.decode(fields.pop(_Key("requests")), type=list[Raw])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidRequest(f"The body must be a JSON object with an array of requests: {error}.") from None
    return msgspec.json.encode(fields), pieces


def to_inference_request(
    request: Mapping[str, Any], *, model_id: str, parameters: Mapping[str, Any]
) -> InferenceRequest:
    """Return a request of a batch as a POST /inference. Raise InvalidRequest, which names the field."""
    own = _with_prompt({name: value for name, value in request.items() if name not in ("id", "messages")}, request)
    return parse_struct({"model": model_id, **parameters, **own}, InferenceRequest)


def results_url(batch_id: str) -> str:
    """Return the path of a batch's results."""
    return f"/batch/{batch_id}/results"


class BatchCreateResponse(Struct):
    """The response of POST /batch."""

    batch_id: BatchId
    status: BatchStatus
    total_requests: TotalCount
    created: Annotated[int, Meta(description="Creation time in Unix seconds.", examples=[1795276179])]
    webhook_secret: (
        Annotated[
            str,
            Meta(
                description="Secret that signs the messages to your `webhook_url`s. Only with the first of them, and "
                "not shown again.",
                examples=["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="],
            ),
        ]
        | UnsetType
    ) = UNSET


class BatchUsage(Struct):
    """Token counts of all successful requests of a batch."""

    prompt_tokens: Annotated[int, Meta(description="Number of tokens of the prompts.", examples=[10])]
    completion_tokens: Annotated[int, Meta(description="Number of generated tokens.", examples=[17])]
    total_tokens: Annotated[int, Meta(description="Sum of both counts.", examples=[27])]


class BatchStatusResponse(Struct):
    """A batch at one moment."""

    batch_id: BatchId
    status: BatchStatus
    completed: CompletedCount
    failed: FailedCount
    total: TotalCount
    results_url: Annotated[
        str, Meta(description="Path of the results on this server.", examples=[f"/batch/{BATCH_ID_EXAMPLE}/results"])
    ]
    model: ModelId
    created: Annotated[int, Meta(description="Creation time in Unix seconds.", examples=[1795276179])]
    expires: Annotated[
        int, Meta(description="Time in Unix seconds at which unfinished requests expire.", examples=[1795362579])
    ]
    ended: Annotated[
        int | None,
        Meta(
            description="Time of the end in Unix seconds, or null while the batch is `processing`.",
            examples=[1795276180],
        ),
    ]
    usage: Annotated[BatchUsage, Meta(description="Token usage of all successful requests.")]


class BatchList(Struct):
    """A page of batches, newest first."""

    batches: Annotated[list[BatchStatusResponse], Meta(description="Batches, newest first.")]
    next: Annotated[
        str | None,
        Meta(description="Value of `after` for the next page, or null on the last page.", examples=[BATCH_ID_EXAMPLE]),
    ]


class BatchError(Struct):
    """The error of a failed request."""

    code: Annotated[ErrorCode, Meta(description="Name of the error for programs.")]
    message: ErrorText


def _any_of(*structs: str) -> dict[str, Any]:
    return {"anyOf": [{"$ref": f"#/components/schemas/{name}"} for name in structs]}


class BatchItemResult(Struct):
    """The result of one request of a batch. Stored answers are passed on unread, so that their types are for the docs.

    The choices are in the form of the route that the batch was created for.
    """

    id: Annotated[
        str, Meta(description="Id of the request: its `id`, or its `custom_id` in a file.", examples=["kettle"])
    ]
    index: Annotated[int, Meta(description="Position of the request in its batch, from 0.", examples=[0])]
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
        Meta(
            description="Token usage of the request. Null if it failed, and for requests to `/v1/responses` and "
            "`/v1/messages`, whose `body` has it."
        ),
    ]
    error: Annotated[BatchError | None, Meta(description="Error of a failed request, otherwise null.")]
    processing_time_ms: ProcessingTime
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
    body: (
        Annotated[
            dict[str, Any],
            Meta(description="Whole answer to a request to `/v1/responses` or `/v1/messages`; otherwise absent."),
        ]
        | UnsetType
    ) = UNSET


class BatchResultsPage(Struct):
    """A page of results in the order of the requests, up to the first unfinished one."""

    batch_id: BatchId
    status: BatchStatus
    model: ModelId
    total: TotalCount
    completed: CompletedCount
    failed: FailedCount
    results: Annotated[
        list[BatchItemResult],
        Meta(description="Results in the order of the requests, up to the first unfinished one."),
    ]
    next: Annotated[
        int | None,
        Meta(
            description="Value of `after` for the next page, or null if the batch has ended and this is the last page.",
            examples=[99],
        ),
    ]


class BatchEndEvent(Struct):
    """The last event of a stream of results."""

    done: Annotated[Literal[True], Meta(description="Always true.")]
    status: BatchStatus
    total: TotalCount
    completed: CompletedCount
    failed: FailedCount


class BatchListQuery(Struct, forbid_unknown_fields=True):
    """The page of batches."""

    after: (
        Annotated[
            str,
            Meta(max_length=64, description="Id of the last batch of the previous page.", examples=[BATCH_ID_EXAMPLE]),
        ]
        | None
    ) = None
    limit: Annotated[int, Meta(ge=1, le=100, description="Maximum number of batches.", examples=[20])] = 20
    status: Annotated[BatchState | None, Meta(description="Status of the batches.")] = None


class BatchResultsQuery(Struct, forbid_unknown_fields=True):
    """The page of results."""

    after: Annotated[
        int,
        Meta(
            ge=-1,
            le=2**31 - 1,
            description="Index of the last request of the previous page; -1 is the first page.",
            examples=[99],
        ),
    ] = -1
    limit: Annotated[int, Meta(ge=1, le=1000, description="Maximum number of results.", examples=[100])] = 100
