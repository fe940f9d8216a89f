"""Slots for requests that take long: no user waits for the queue of another."""

import asyncio

from inference.access.requests import heavy_request_slot
from shared.accounts.authentication import Principal
from shared.accounts.models import User


def make_principal(pk: int) -> Principal:
    return Principal(user=User(pk=pk), permissions=frozenset())


async def hold_slot(pk: int, order: list[str], name: str, ends: asyncio.Event) -> None:
    async with heavy_request_slot(make_principal(pk)):
        order.append(name)
        await ends.wait()


def test_a_user_holds_one_slot_at_a_time_and_other_users_do_not_wait():
    asyncio.run(_run_requests())


async def _run_requests() -> None:
    order: list[str] = []
    ends = {name: asyncio.Event() for name in ("first", "second", "other", "third")}
    async with asyncio.TaskGroup() as tasks:
        for pk, name in ((1, "first"), (1, "second"), (2, "other"), (3, "third")):
            tasks.create_task(hold_slot(pk, order, name, ends[name]))
        await asyncio.sleep(0.05)
        assert order == ["first", "other"]  # two run concurrently, of two users

        ends["other"].set()
        await asyncio.sleep(0.05)
        assert order == ["first", "other", "third"]
        for end in ends.values():
            end.set()
    assert order[-1] == "second"
