"""The route of usage."""

from msgspec import UNSET

from inference.access.operations import Call, operation
from inference.protocol.usage import UsageAnswer, UsageQuery
from inference.usage import services
from shared.accounts.roles import Permission


@operation(
    "GET",
    summary="What you have used, and what is left of your limits",
    permission=Permission.RUN_INFERENCE,
    query=UsageQuery,
    answer=UsageAnswer,
)
async def usage(call: Call[None]) -> UsageAnswer:
    """Of your user; of the key alone, where it carries a few named permissions only. The limits are the key's that you
    send, and your user's where the key counts for it."""
    asked: UsageQuery = call.query
    return await services.read_usage(
        caller=call.caller,
        first=None if asked.first is UNSET else asked.first,
        last=None if asked.last is UNSET else asked.last,
        group_by=asked.group_by,
        user_id=None if asked.user is UNSET else asked.user,
    )
