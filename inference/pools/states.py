"""The states of members, as this process finds them."""

import asyncio
from collections.abc import Iterable

from msgspec import Struct

from inference.pools.client import pool_client
from inference.pools.definitions import Member

READY, FAILED, DRAINING = "ready", "failed", "draining"


class MemberState(Struct, frozen=True):
    """The state of a member: `ready`, `failed` or `draining`. error: why it failed. warning: what is odd about it.

    requests: that this process has with it. context_size: what its server reports, or 0.
    """

    member: Member
    state: str
    error: str | None
    warning: str | None
    requests: int
    context_size: int


async def read_states(members: Iterable[Member], *, check: bool = False) -> list[MemberState]:
    """Return the states of members, as last known, or after a check of each."""
    return list(await asyncio.gather(*(_read_state(member, check=check) for member in members)))


def check_members(members: Iterable[Member]) -> list[MemberState]:
    """Return the states of members after a check of each, from code that runs in no event loop."""

    async def check() -> list[MemberState]:
        try:
            return await read_states(members, check=True)
        finally:
            await pool_client().close()

    return asyncio.run(check())


def describe_failure(states: Iterable[MemberState], *, with_members: bool = True) -> str | None:
    """Return why no member can take requests, or None if one can. with_members: name those of a pool of several."""
    states = list(states)
    if any(state.state == READY for state in states):
        return None
    if len(states) == 1 and states[0].error:
        return states[0].error
    if not with_members:
        return "No member is ready."
    return "No member is ready. " + " ".join(f"{one.member.name}: {one.error or 'It drains.'}" for one in states)


async def _read_state(member: Member, *, check: bool) -> MemberState:
    client = pool_client()
    health = await (client.check(member) if check else client.status(member))
    state = DRAINING if member.is_draining else FAILED if health.error else READY
    return MemberState(member, state, health.error, health.warning, client.load(member), health.context_size)
