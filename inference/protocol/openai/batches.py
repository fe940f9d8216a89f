"""OpenAI's batches: the lines of their files, and the batch itself."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from inference.engine import InvalidRequest
from inference.protocol.openai.files import AfterId

BatchEndpoint = Literal["/v1/chat/completions", "/v1/completions", "/v1/embeddings"]
OpenAIBatchStatus = Literal[
    "validating", "failed", "in_progress", "finalizing", "completed", "expired", "cancelling", "cancelled"
]
MetadataKey = Annotated[str, Meta(min_length=1, max_length=64)]
MetadataValue = Annotated[str, Meta(max_length=512)]
BatchMetadata = Annotated[dict[MetadataKey, MetadataValue], Meta(max_length=16)]


class OutputExpiresAfter(Struct):
    """How long what the batch writes is kept."""

    anchor: Literal["created_at"]
    seconds: Annotated[int, Meta(ge=3600, le=30 * 24 * 3600)]


class OpenAIBatchCreateRequest(Struct, kw_only=True):
    """POST /v1/batches."""

    input_file_id: Annotated[str, Meta(max_length=100)]
    endpoint: BatchEndpoint
    completion_window: Literal["24h"]
    metadata: BatchMetadata | None = None
    output_expires_after: OutputExpiresAfter | None = None


class BatchInputLine(Struct, kw_only=True):
    """One line of an input file."""

    custom_id: str
    method: str
    url: str
    body: dict[str, Any]


class OpenAIBatchesQuery(Struct):
    """Which batches are listed."""

    after: AfterId | None = None
    limit: Annotated[int, Meta(ge=1, le=100)] = 20


class OpenAIBatchError(Struct):
    """What is wrong with a line of the input file, or with the file."""

    code: str
    message: str
    line: int | None = None
    param: str | None = None


class OpenAIBatchErrorList(Struct):
    """The first of what is wrong."""

    object: Literal["list"]
    data: list[OpenAIBatchError]


class BatchRequestCounts(Struct):
    """How many requests there are, and how many have ended."""

    total: int
    completed: int
    failed: int


class OpenAIBatch(Struct, kw_only=True):
    """One batch. Times are Unix seconds, null for what has not happened."""

    id: str
    object: Literal["batch"]
    endpoint: str
    model: str | None
    errors: OpenAIBatchErrorList | None
    input_file_id: str
    completion_window: str
    status: OpenAIBatchStatus
    output_file_id: str | None
    error_file_id: str | None
    created_at: int
    in_progress_at: int | None
    expires_at: int | None
    finalizing_at: int | None
    completed_at: int | None
    failed_at: int | None
    expired_at: int | None
    cancelling_at: int | None
    cancelled_at: int | None
    request_counts: BatchRequestCounts
    metadata: dict[str, str] | None


class OpenAIBatchList(Struct):
    """Some of the batches of whoever asks, newest first."""

    object: Literal["list"]
    data: list[OpenAIBatch]
    first_id: str | None
    last_id: str | None
    has_more: bool


class BatchOutputResponse(Struct):
    """What the live route would have answered."""

    status_code: int
    request_id: str
    body: Any


class BatchOutputError(Struct):
    """Why a request was not run."""

    code: str
    message: str


class BatchOutputLine(Struct):
    """One line of an output or error file."""

    id: str
    custom_id: str
    response: BatchOutputResponse | None
    error: BatchOutputError | None


def reject_unsupported_in_batch(*, stream: bool | None, priority: int | None) -> None:
    """InvalidRequest for what the live routes can do and a batch cannot."""
    if stream:
        raise InvalidRequest("stream is wrong: a batch answers whole; leave it out.", field="stream")
    if priority is not None and priority > 0:
        raise InvalidRequest("priority is wrong: a batch takes what others leave; send at most 0.", field="priority")
