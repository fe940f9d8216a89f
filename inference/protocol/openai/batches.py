"""Wire structs of /v1/batches: the batch, and the lines of its input, output and error files."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from inference.engine import InvalidRequest
from inference.protocol.fields import ModelId
from inference.protocol.openai.files import FILE_ID_EXAMPLE, FileExpirySeconds

BatchEndpoint = Literal["/v1/chat/completions", "/v1/completions", "/v1/embeddings", "/v1/responses", "/v1/messages"]
OpenAIBatchStatus = Literal[
    "validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"
]
OPENAI_BATCH_ID_EXAMPLE = "batch_7d0f6c1e5a9b4832f1e0d9c8"
MetadataKey = Annotated[str, Meta(min_length=1, max_length=64)]
MetadataValue = Annotated[str, Meta(max_length=512)]
BatchMetadata = Annotated[
    dict[MetadataKey, MetadataValue],
    Meta(
        max_length=16,
        description="Up to 16 keys with values of your own.",
        examples=[{"for": "spring catalogue"}],
    ),
]


class OutputExpiresAfter(Struct):
    """The expiry of a batch's output files."""

    anchor: Annotated[Literal["created_at"], Meta(description="Start of the time: the creation of the file.")]
    seconds: FileExpirySeconds


class OpenAIBatchCreateRequest(Struct, kw_only=True):
    """A new batch of an uploaded file."""

    input_file_id: Annotated[
        str, Meta(max_length=100, description="Id of the file with the requests.", examples=[FILE_ID_EXAMPLE])
    ]
    endpoint: Annotated[BatchEndpoint, Meta(description="Route that all lines of the file are for.")]
    completion_window: Annotated[Literal["24h"], Meta(description="Time within which the batch is processed.")]
    metadata: BatchMetadata | None = None
    output_expires_after: Annotated[
        OutputExpiresAfter | None, Meta(description="Expiry of the output files. By default the server's setting.")
    ] = None


class BatchInputLine(Struct, kw_only=True):
    """One line of an input file."""

    custom_id: str
    method: str
    url: str
    body: dict[str, Any]


class OpenAIBatchesQuery(Struct):
    """The page of batches."""

    after: (
        Annotated[
            str,
            Meta(
                max_length=100,
                description="Id of the last batch of the previous page.",
                examples=[OPENAI_BATCH_ID_EXAMPLE],
            ),
        ]
        | None
    ) = None
    limit: Annotated[int, Meta(ge=1, le=100, description="Maximum number of batches.", examples=[20])] = 20


class OpenAIBatchError(Struct):
    """An error of the input file or of one of its lines."""

    code: Annotated[str, Meta(description="Name of the error for programs.", examples=["invalid_request"])]
    message: Annotated[
        str, Meta(description="What is wrong and what to do, in English.", examples=["`custom_id` is required."])
    ]
    line: Annotated[int | None, Meta(description="Number of the line, from 1, or null.", examples=[3])] = None
    param: Annotated[str | None, Meta(description="Field that is wrong, or null.", examples=["body.temperature"])] = (
        None
    )


class OpenAIBatchErrorList(Struct):
    """The first errors of an input file."""

    object: Annotated[Literal["list"], Meta(description="Kind of the object.")]
    data: Annotated[list[OpenAIBatchError], Meta(description="First errors of the file.")]


class BatchRequestCounts(Struct):
    """Counts of the requests of a batch."""

    total: Annotated[int, Meta(description="Number of requests.", examples=[20])]
    completed: Annotated[int, Meta(description="Number of requests that succeeded.", examples=[4])]
    failed: Annotated[int, Meta(description="Number of requests that failed.", examples=[0])]


class BatchInputTokensDetails(Struct, frozen=True):
    """Details of the prompts' tokens."""

    cached_tokens: Annotated[int, Meta(description="Always 0: batches do not count cached tokens.", examples=[0])] = 0


class BatchOutputTokensDetails(Struct, frozen=True):
    """Details of the generated tokens."""

    reasoning_tokens: Annotated[
        int, Meta(description="Always 0: reasoning is counted as other generated text.", examples=[0])
    ] = 0


class OpenAIBatchUsage(Struct):
    """Token counts of all successful requests of a batch."""

    input_tokens: Annotated[int, Meta(description="Number of tokens of the prompts.", examples=[120])]
    output_tokens: Annotated[int, Meta(description="Number of generated tokens.", examples=[85])]
    total_tokens: Annotated[int, Meta(description="Sum of both counts.", examples=[205])]
    input_tokens_details: Annotated[BatchInputTokensDetails, Meta(description="Details of the prompts' tokens.")] = (
        BatchInputTokensDetails()
    )
    output_tokens_details: Annotated[BatchOutputTokensDetails, Meta(description="Details of the generated tokens.")] = (
        BatchOutputTokensDetails()
    )


def _time_of(event: str) -> Meta:
    return Meta(description=f"Time in Unix seconds at which the batch {event}, or null.", examples=[1795276200])


class OpenAIBatch(Struct, kw_only=True):
    """One batch."""

    id: Annotated[str, Meta(description="Id of the batch.", examples=[OPENAI_BATCH_ID_EXAMPLE])]
    object: Annotated[Literal["batch"], Meta(description="Kind of the object.")]
    endpoint: Annotated[str, Meta(description="Route of the requests.", examples=["/v1/chat/completions"])]
    model: Annotated[ModelId | None, Meta(description="Id of the model, or null if the file names none.")]
    errors: Annotated[OpenAIBatchErrorList | None, Meta(description="Errors of a file that is not valid, or null.")]
    input_file_id: Annotated[str, Meta(description="Id of the file with the requests.", examples=[FILE_ID_EXAMPLE])]
    completion_window: Annotated[str, Meta(description="Always `24h`.", examples=["24h"])]
    status: Annotated[OpenAIBatchStatus, Meta(description="Status of the batch. `validating` never occurs.")]
    output_file_id: Annotated[
        str | None, Meta(description="Id of the file with the responses, or null.", examples=[FILE_ID_EXAMPLE])
    ]
    error_file_id: Annotated[
        str | None, Meta(description="Id of the file with the errors, or null.", examples=[FILE_ID_EXAMPLE])
    ]
    created_at: Annotated[int, Meta(description="Creation time in Unix seconds.", examples=[1795276200])]
    in_progress_at: Annotated[int | None, _time_of("started")]
    expires_at: Annotated[int | None, _time_of("expires")]
    finalizing_at: Annotated[int | None, _time_of("began to write its files")]
    completed_at: Annotated[int | None, _time_of("was completed")]
    failed_at: Annotated[int | None, _time_of("failed")]
    expired_at: Annotated[int | None, _time_of("expired")]
    cancelling_at: Annotated[int | None, _time_of("began to be cancelled")]
    cancelled_at: Annotated[int | None, _time_of("was cancelled")]
    request_counts: Annotated[BatchRequestCounts, Meta(description="Counts of the requests.")]
    metadata: Annotated[
        dict[str, str] | None, Meta(description="Keys and values of your own.", examples=[{"for": "spring catalogue"}])
    ]
    usage: Annotated[
        OpenAIBatchUsage | None,
        Meta(description="Token usage of the successful requests so far; null for a file that is not valid."),
    ]


class OpenAIBatchList(Struct):
    """A page of batches, newest first."""

    object: Annotated[Literal["list"], Meta(description="Kind of the object.")]
    data: Annotated[list[OpenAIBatch], Meta(description="Batches of the page, newest first.")]
    first_id: Annotated[
        str | None, Meta(description="Id of the first batch of the page, or null.", examples=[OPENAI_BATCH_ID_EXAMPLE])
    ]
    last_id: Annotated[
        str | None,
        Meta(
            description="Id of the last batch of the page, which is `after` of the next page, or null.",
            examples=[OPENAI_BATCH_ID_EXAMPLE],
        ),
    ]
    has_more: Annotated[bool, Meta(description="Whether another page follows.", examples=[False])]


class BatchOutputResponse(Struct):
    """The response of the live route to a request."""

    status_code: int
    request_id: str
    body: Any


class BatchOutputError(Struct):
    """The reason why a request was not run."""

    code: str
    message: str


class BatchOutputLine(Struct):
    """One line of an output or error file."""

    id: str
    custom_id: str
    response: BatchOutputResponse | None
    error: BatchOutputError | None


def reject_unsupported_in_batch(*, stream: bool | None, priority: int | None) -> None:
    """Raise InvalidRequest for parameters that the live routes accept and a batch does not."""
    if stream:
        raise InvalidRequest("`stream` must be absent: a batch returns whole responses.", field="stream")
    if priority is not None and priority > 0:
        raise InvalidRequest("`priority` must be at most 0: a batch runs after interactive requests.", field="priority")
