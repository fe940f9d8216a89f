"""Whose turn it is where requests take long: nobody waits for another user's queue."""

import asyncio

from inference.access.requests import heavy_request_slot
from shared.accounts.authentication import Principal
from shared.accounts.models import User


def somebody(pk: int) -> Principal:
    return Principal(user=User(pk=pk), permissions=frozenset())


async def in_turn(pk: int, order: list[str], name: str, ends: asyncio.Event) -> None:
    async with heavy_request_slot(somebody(pk)):
        order.append(name)
        await ends.wait()


def test_a_user_has_one_turn_at_a_time_and_others_pass_them_by():
    asyncio.run(_pass_by())


async def _pass_by() -> None:
    order: list[str] = []
    ends = {name: asyncio.Event() for name in ("first", "second", "other", "third")}
    async with asyncio.TaskGroup() as tasks:
        for pk, name in ((1, "first"), (1, "second"), (2, "other"), (3, "third")):
            tasks.create_task(in_turn(pk, order, name, ends[name]))
        await asyncio.sleep(0.05)
        assert order == ["first", "other"]  # two at once, of two users

        ends["other"].set()
        await asyncio.sleep(0.05)
        assert order == ["first", "other", "third"]
        for end in ends.values():
            end.set()
    assert order[-1] == "second"
