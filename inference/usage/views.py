"""The usage route."""

from msgspec import UNSET

from inference.access.operations import OperationCall, operation
from inference.protocol.native.usage import UsageQuery, UsageResponse
from inference.usage import schema, services
from shared.accounts.roles import Permission


@operation(
    "GET",
    docs=schema.USAGE,
    permission=Permission.RUN_INFERENCE,
    query=UsageQuery,
    response=UsageResponse,
)
async def usage(call: OperationCall[None]) -> UsageResponse:
    query: UsageQuery = call.query
    return await services.read_usage(
        caller=call.caller,
        first=None if query.first is UNSET else query.first,
        last=None if query.last is UNSET else query.last,
        group_by=query.group_by,
        user_id=None if query.user is UNSET else query.user,
    )
