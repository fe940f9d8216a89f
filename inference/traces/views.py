"""The route of traces."""

from inference.access.operations import OperationCall, operation
from inference.protocol.native.traces import TracesQuery, TracesResponse
from inference.traces import schema, services
from shared.accounts.roles import Permission


@operation(
    "GET",
    docs=schema.TRACES,
    permission=Permission.READ_TRACES,
    query=TracesQuery,
    response=TracesResponse,
)
async def traces(call: OperationCall[None]) -> TracesResponse:
    return await services.read_traces(caller=call.caller, query=call.query)
