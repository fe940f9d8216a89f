"""Room for models: who gets in, who waits, and who has to leave for whom."""

import asyncio
import contextlib
import logging
import time
from typing import Protocol

from inference.engine.errors import EngineError, EngineOverloaded, InvalidRequest
from inference.engine.host.options import HostOptions

logger = logging.getLogger(__name__)

LOOK_SECONDS = 0.25  # a model is no longer held when a time has passed, of which nobody tells


class Tenant(Protocol):
    """A model as far as room is concerned. memory_bytes: expected, then known. used_at: of time.monotonic.

    is_idle: it is loaded, works for nobody and is kept for nobody. is_held: it is kept for a request that has yet to
    come. is_leaving: its room is free soon.
    """

    @property
    def model_id(self) -> str: ...
    @property
    def memory_bytes(self) -> int: ...
    @property
    def used_at(self) -> float: ...
    @property
    def is_idle(self) -> bool: ...
    @property
    def is_loaded(self) -> bool: ...
    @property
    def is_held(self) -> bool: ...
    @property
    def is_leaving(self) -> bool: ...

    async def retire(self) -> bool:
        """End it unless somebody has come to it meanwhile; False: somebody has."""

    def close_to_new(self) -> None:
        """It takes no new requests, and ends after the last one."""


class Room:
    """The models that are in memory or on their way there, under one policy. Who comes first is served first."""

    def __init__(self, policy: HostOptions) -> None:
        self._policy = policy
        self._tenants: list[Tenant] = []
        self._turn = asyncio.Lock()  # asyncio's locks are first come, first served
        self._changed = asyncio.Event()

    async def enter(self, tenant: Tenant, *, may_evict: bool) -> None:
        """Returns when there is room for it, and counts it from then on until it leaves.

        InvalidRequest: there never is; EngineOverloaded: not now, or not in time.
        """
        self._refuse_impossible(tenant)
        try:
            async with asyncio.timeout(self._policy.room_wait), self._turn:
                await self._make_room(tenant, may_evict=may_evict and self._policy.evict)
                self._tenants.append(tenant)
        except TimeoutError:
            raise self._full(tenant) from None

    async def settle(self, tenant: Tenant) -> None:
        """What it takes is known now, and may be more than was expected. Raises as `enter` does, without waiting."""
        self._refuse_impossible(tenant)
        while not self._fits(None):
            if not await self._evict_another(tenant):
                raise self._full(tenant)

    def leave(self, tenant: Tenant) -> None:
        with contextlib.suppress(ValueError):
            self._tenants.remove(tenant)
        self.look_again()

    def look_again(self) -> None:
        """A tenant's state has changed."""
        self._changed.set()

    async def end_unused(self) -> None:
        """For ever: ends models that nobody has used for as long as the policy says."""
        limit = self._policy.idle_unload
        if limit is None:
            return
        while True:
            await asyncio.sleep(min(1.0, limit / 4))
            for tenant in [one for one in self._tenants if one.is_idle]:
                if time.monotonic() - tenant.used_at >= limit and await tenant.retire():
                    logger.info("engine.model_unused model=%s", tenant.model_id)

    async def _make_room(self, tenant: Tenant, *, may_evict: bool) -> None:
        since = time.monotonic()
        while not self._fits(tenant):
            if not may_evict:
                raise self._full(tenant)
            if await self._evict_another(tenant):
                continue
            if self._policy.autoload and time.monotonic() - since >= self._policy.crowded:
                self._close_another(tenant)
            await self._wait_for_change()

    async def _evict_another(self, tenant: Tenant) -> bool:
        """The idle one that was used longest ago; False where none is idle, or somebody came to it meanwhile."""
        idle = [one for one in self._tenants if one.is_idle and one is not tenant]
        if not self._policy.evict or not idle:
            return False
        victim = min(idle, key=lambda one: one.used_at)
        now, kept = time.monotonic(), [one for one in self._tenants if one is not victim and one is not tenant]
        story = (victim.model_id, tenant.model_id, now - victim.used_at, ",".join(_use(one, now) for one in kept))
        if not await victim.retire():
            return False
        logger.info("engine.model_evicted model=%s for=%s unused_s=%.3f kept=%s", *story)
        return True

    def _close_another(self, tenant: Tenant) -> None:
        """With every model busy all the time nobody else would ever get in. Who is refused now waits in line."""
        if any(one.is_leaving for one in self._tenants):
            return
        if loaded := [one for one in self._tenants if one.is_loaded and not one.is_held]:
            closed = min(loaded, key=lambda one: one.used_at)
            logger.info("engine.model_closed model=%s for=%s", closed.model_id, tenant.model_id)
            closed.close_to_new()

    async def _wait_for_change(self) -> None:
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), LOOK_SECONDS)

    def _fits(self, tenant: Tenant | None) -> bool:
        """Whether all that are in, and this one, are within the limits."""
        tenants = [*self._tenants, tenant] if tenant else self._tenants
        budget, most = self._policy.memory_budget, self._policy.max_loaded
        within_budget = budget is None or sum(one.memory_bytes for one in tenants) <= budget
        return within_budget and (most is None or len(tenants) <= most)

    def _refuse_impossible(self, tenant: Tenant) -> None:
        budget = self._policy.memory_budget
        if budget is not None and tenant.memory_bytes > budget:
            raise InvalidRequest(
                f"{tenant.model_id} needs about {tenant.memory_bytes} bytes so, and all models together may take "
                f"{budget} (STOA_MEMORY_BUDGET). Load it with a smaller `context_size` or `max_sequences`, or with "
                "`quantization` int8."
            )

    def _full(self, tenant: Tenant) -> EngineError:
        return EngineOverloaded(
            f"There is no room for {tenant.model_id}: other models have it. Unload one, or try again later.",
            retry_after=5,
            reason="no_room",
        )


def _use(tenant: Tenant, now: float) -> str:
    return f"{tenant.model_id}:{f'{now - tenant.used_at:.3f}' if tenant.is_idle else 'busy'}"
