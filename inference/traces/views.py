"""The route of traces."""

from inference.access.operations import Call, operation
from inference.protocol.traces import TracesAnswer, TracesQuery
from inference.traces import services
from shared.accounts.roles import Permission


@operation(
    "GET",
    summary="What was done for requests of the last day, span by span",
    permission=Permission.READ_TRACES,
    query=TracesQuery,
    answer=TracesAnswer,
)
async def traces(call: Call[None]) -> TracesAnswer:
    """Newest first. Your user's own, unless you may manage models: then everybody's."""
    return await services.read_traces(caller=call.caller, asked=call.query)
