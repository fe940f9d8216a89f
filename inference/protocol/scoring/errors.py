"""Wire struct of the errors under /v2, in Cohere's form."""

from typing import Annotated

from msgspec import Meta, Struct

from inference.protocol.errors import ErrorCode
from inference.protocol.native.errors import ErrorText, RequestId, Timestamp


class CohereErrorResponse(Struct):
    """The body of every error under /v2."""

    id: RequestId
    message: ErrorText
    code: Annotated[ErrorCode, Meta(description="Name of the error for programs.")]
    request_id: RequestId
    timestamp: Timestamp
