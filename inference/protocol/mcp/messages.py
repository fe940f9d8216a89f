"""JSON-RPC messages of /mcp. The SDK of the protocol reads and writes their contents."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from inference.protocol.errors import ErrorCode
from inference.protocol.native.errors import ErrorText, RequestId, Timestamp
from inference.protocol.parsing import parse_struct

PARSE_ERROR, INVALID_REQUEST, INTERNAL_ERROR = -32700, -32600, -32603  # JSON-RPC 2.0, section 5.1

MessageId = Annotated[str, Meta(max_length=256)] | Annotated[int, Meta(ge=-(2**53), le=2**53)]
JsonRpcVersion = Annotated[Literal["2.0"], Meta(description="Version of JSON-RPC.")]


class McpMessage(Struct):
    """A request of a client, or a notification, which has no id."""

    jsonrpc: JsonRpcVersion
    method: Annotated[str, Meta(max_length=128, description="Method of the protocol.", examples=["tools/call"])]
    params: Annotated[dict[str, Any], Meta(description="Parameters of the method.")] | UnsetType = UNSET
    id: Annotated[MessageId, Meta(description="Id of the request, which its response repeats.", examples=[1])] | (
        UnsetType
    ) = UNSET


def parse_message(value: Mapping[str, Any]) -> McpMessage:
    """Return the message. Raise InvalidRequest, which names the field that is not valid."""
    return parse_struct(value, McpMessage)


class McpError(Struct):
    """The error of a request."""

    code: Annotated[int, Meta(description="Code of JSON-RPC or of the protocol.", examples=[INVALID_REQUEST])]
    message: ErrorText
    data: Annotated[dict[str, Any] | str | None, Meta(description="Details of the error.")] = None


class McpResponse(Struct):
    """The response to a request: its result or its error."""

    jsonrpc: JsonRpcVersion
    id: Annotated[MessageId, Meta(description="Id of the request.", examples=[1])]
    result: Annotated[dict[str, Any], Meta(description="Result of the method.")] | UnsetType = UNSET
    error: Annotated[McpError, Meta(description="Error of the request.")] | UnsetType = UNSET


class McpErrorResponse(Struct):
    """The body of a request that was refused before it was read as a message of the protocol."""

    jsonrpc: JsonRpcVersion
    id: Annotated[None, Meta(description="Always null.")]
    error: Annotated[McpError, Meta(description="Error.")]
    request_id: RequestId
    timestamp: Timestamp


def mcp_error_body(code: ErrorCode, message: str, status: int, details: Mapping[str, Any]) -> dict[str, Any]:
    """Return the body of a JSON-RPC error. `data` has the native code and its details."""
    number = INTERNAL_ERROR if status >= 500 else INVALID_REQUEST
    error = {"code": number, "message": message, "data": {"code": code, **details}}
    return {"jsonrpc": "2.0", "id": None, "error": error}
