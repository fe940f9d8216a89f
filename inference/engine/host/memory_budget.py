"""The memory budget: admission of models, in order of arrival, and eviction of idle ones.

A model also has to fit into the memory that the machine has available. What a load has still to take is not available
to another load of this host; for loads of other hosts on the machine there is a lock, which ends with its process. Only
what a load takes at once counts: caches that may never fill, and files that are mapped, would refuse loads that work.
"""

import asyncio
import contextlib
import logging
import time
from pathlib import Path
from typing import Any, Protocol

from inference.engine.errors import EngineError, EngineOverloaded, InvalidRequest
from inference.engine.host.options import HostOptions
from inference.engine.machine_memory import LoadLock, MachineMemory, read_memory

logger = logging.getLogger(__name__)

POLL_SECONDS = 0.25  # the end of a reservation notifies nobody, nor does the machine
NO_ROOM: dict[str, Any] = {"retry_after": 5, "reason": "no_room"}
LOCKED_SHARE = 0.25  # a load that takes more of the available memory has the lock of the machine's hosts


class BudgetedModel(Protocol):
    """A model that takes part of the budget.

    memory_bytes: of all replicas; an estimate until the model is loaded.
    load_bytes: the part of it that the load takes at once.
    pending_bytes: what a load or restart in progress has still to take of that.
    used_at: time of the monotonic clock.
    is_idle: it is loaded, has no requests and is not reserved.
    is_reserved: it stays loaded for a request that has not arrived yet.
    is_unloading: its memory is free soon.
    """

    @property
    def model_id(self) -> str: ...
    @property
    def memory_bytes(self) -> int: ...
    @property
    def load_bytes(self) -> int: ...
    @property
    def pending_bytes(self) -> int: ...
    @property
    def replica_count(self) -> int: ...
    @property
    def used_at(self) -> float: ...
    @property
    def is_idle(self) -> bool: ...
    @property
    def is_loaded(self) -> bool: ...
    @property
    def is_reserved(self) -> bool: ...
    @property
    def is_unloading(self) -> bool: ...

    async def unload_if_idle(self) -> bool:
        """Unload unless a request has arrived meanwhile. Return whether it is unloaded."""

    def drain(self) -> None:
        """Reject new requests, and unload after the last one."""


class MemoryBudget:
    """Models in memory or being loaded, within the host's options. Loads are admitted in order of arrival."""

    def __init__(self, options: HostOptions) -> None:
        self._options = options
        self._models: list[BudgetedModel] = []
        self._system_root = Path(options.system_root)
        self._load_lock = LoadLock(self._system_root)
        self._lock_users: list[BudgetedModel] = []
        self._locked_out: set[BudgetedModel] = set()  # at their last try, by another host
        self._lock = asyncio.Lock()  # asyncio's locks are first come, first served
        self._changed = asyncio.Event()

    async def admit(self, model: BudgetedModel, *, may_evict: bool) -> None:
        """Wait until the model fits, and count it until `release`.

        Raise InvalidRequest if it can never fit, and EngineOverloaded if it does not fit in time. While the machine
        lacks memory for it, others may go first.
        """
        self._check_size(model)
        self._check_machine(model)
        started_at = time.monotonic()
        try:
            async with asyncio.timeout(self._options.admission_timeout):
                while not await self._admit_next(model, started_at, may_evict=may_evict):
                    await self._wait_for_change()
        except TimeoutError:
            raise self._overloaded(model) from None
        finally:
            self._locked_out.discard(model)

    async def update(self, model: BudgetedModel) -> None:
        """Fit a model whose memory is measured now. Raise as `admit` does, without waiting."""
        self._check_size(model)
        while not self._fits(None):
            if not await self._evict_idle(model):
                raise self._overloaded(model)

    def release(self, model: BudgetedModel) -> None:
        """Free the memory of a model. One that was not admitted is ignored."""
        with contextlib.suppress(ValueError):
            self._models.remove(model)
        self.notify_changed()

    def notify_changed(self) -> None:
        """Wake waiting loads, because a model's state has changed."""
        self._lock_users = [one for one in self._lock_users if one in self._models and not one.is_loaded]
        if not self._lock_users:
            self._load_lock.release()
        self._changed.set()

    async def unload_unused(self) -> None:
        """Unload models that are unused for `idle_unload`, until cancelled."""
        limit = self._options.idle_unload
        if limit is None:
            return
        while True:
            await asyncio.sleep(min(1.0, limit / 4))
            for model in [one for one in self._models if one.is_idle]:
                if time.monotonic() - model.used_at >= limit and await model.unload_if_idle():
                    logger.info("engine.model_unused model=%s", model.model_id)

    async def _admit_next(self, model: BudgetedModel, started_at: float, *, may_evict: bool) -> bool:
        """Wait until the model is within the limits, and return whether the machine has the memory too."""
        async with self._lock:
            await self._wait_until_within_limits(model, started_at, may_evict=may_evict and self._options.evict)
            while not self._reserve_machine(model):
                if not may_evict:
                    raise self._overloaded(model)
                if not self._options.evict or not self._can_free_memory(model):
                    return False
                if not await self._evict_idle(model):
                    self._drain_if_late(model, started_at)
                    return False
            self._models.append(model)
            return True

    async def _wait_until_within_limits(self, model: BudgetedModel, started_at: float, *, may_evict: bool) -> None:
        while not self._fits(model):
            if not may_evict:
                raise self._overloaded(model)
            if await self._evict_idle(model):
                continue
            self._drain_if_late(model, started_at)
            await self._wait_for_change()

    async def _evict_idle(self, new: BudgetedModel) -> bool:
        """Unload the idle model that was used longest ago. Return False if there is none or it got a request."""
        idle = [one for one in self._models if one.is_idle and one is not new]
        if not self._options.evict or not idle:
            return False
        evicted = min(idle, key=lambda one: one.used_at)
        now, others = time.monotonic(), [one for one in self._models if one is not evicted and one is not new]
        kept = ",".join(_usage(one, now) for one in others)
        fields = (evicted.model_id, new.model_id, now - evicted.used_at, kept)
        if not await evicted.unload_if_idle():
            return False
        logger.info("engine.model_evicted model=%s for=%s unused_s=%.3f kept=%s", *fields)
        return True

    def _drain_if_late(self, new: BudgetedModel, started_at: float) -> None:
        """Drain the model used longest ago. If all models were always busy, no other would ever be loaded."""
        if not self._options.autoload or time.monotonic() - started_at < self._options.drain_after:
            return
        if any(one.is_unloading for one in self._models):
            return
        if loaded := [one for one in self._models if _may_be_drained(one)]:
            drained = min(loaded, key=lambda one: one.used_at)
            logger.info("engine.model_drained model=%s for=%s", drained.model_id, new.model_id)
            drained.drain()

    async def _wait_for_change(self) -> None:
        self._changed.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._changed.wait(), POLL_SECONDS)

    def _fits(self, new: BudgetedModel | None) -> bool:
        """Return whether the admitted models, with a new one, are within the limits."""
        models = [*self._models, new] if new else self._models
        budget, max_loaded = self._options.memory_budget, self._options.max_loaded
        is_within_budget = budget is None or sum(one.memory_bytes for one in models) <= budget
        return is_within_budget and (max_loaded is None or len(models) <= max_loaded)

    def _reserve_machine(self, new: BudgetedModel) -> bool:
        """Return whether the machine has the memory for a load, which then has the lock if it takes much of it."""
        memory = read_memory(self._system_root)
        if memory is None or not new.load_bytes:
            return True
        is_large = new.load_bytes > LOCKED_SHARE * memory.available
        self._locked_out.discard(new)
        if is_large and not self._load_lock.try_acquire():
            self._locked_out.add(new)
            return False
        has_room = self._lacking_bytes(new) <= 0  # read again, because the lock's last holder has loaded since
        if has_room and is_large:
            self._lock_users.append(new)
        if not self._lock_users:
            self._load_lock.release()
        return has_room

    def _lacking_bytes(self, new: BudgetedModel) -> int:
        """Return what a load needs beyond the machine's available memory. It is negative if there is more."""
        memory = read_memory(self._system_root)
        return new.load_bytes - self._unclaimed_bytes(memory) if memory else 0

    def _unclaimed_bytes(self, memory: MachineMemory) -> int:
        """Return what is available beside the loads of this host that are in progress."""
        return memory.available - sum(one.pending_bytes for one in self._models)

    def _can_free_memory(self, new: BudgetedModel) -> bool:
        """Return whether the end of this host's models that may end could give a load what the machine lacks."""
        ending = [one for one in self._models if one.is_idle or (self._options.autoload and _may_be_drained(one))]
        freed_bytes = sum(one.memory_bytes for one in ending)
        return new not in self._locked_out and self._lacking_bytes(new) <= freed_bytes

    def _check_size(self, model: BudgetedModel) -> None:
        budget = self._options.memory_budget
        if budget is not None and model.memory_bytes > budget:
            raise InvalidRequest(
                f"{model.model_id} needs {_amount(model)} with these options, but the memory budget of all models is "
                f"{budget} (STOA_MEMORY_BUDGET). {_advice(model)}"
            )

    def _check_machine(self, model: BudgetedModel) -> None:
        memory = read_memory(self._system_root)
        if memory and model.load_bytes > memory.total:
            raise InvalidRequest(
                f"{model.model_id} takes about {model.load_bytes} bytes with these options, but this machine, or the "
                f"container of its model host, has {memory.total}. Load it with {_fewer_replicas(model)}`quantization` "
                "int8, more `gpu_layers` if there is a GPU or, on llama.cpp, a smaller `context_size`."
            )

    def _overloaded(self, model: BudgetedModel) -> EngineError:
        return EngineOverloaded(f"There is no memory for {model.model_id}, {self._shortage(model)}", **NO_ROOM)

    def _shortage(self, model: BudgetedModel) -> str:
        """Return what uses the memory that a model needs, and what to do, as words."""
        if self._fits(model) and model in self._locked_out:
            return (
                f"which takes about {model.load_bytes} bytes: another model host of this machine is loading a model. "
                "Try again when it has."
            )
        memory = read_memory(self._system_root)
        if self._fits(model) and memory and self._lacking_bytes(model) > 0:
            return (
                f"which takes about {model.load_bytes} bytes: {max(0, self._unclaimed_bytes(memory))} are available on "
                "this machine, whose programs, or other models, use the rest. End some of them, unload a model, or try "
                "again later."
            )
        return f"which needs {_amount(model)}: other models use it. Unload one, or try again later."


def _amount(model: BudgetedModel) -> str:
    """Return the memory of a model, as words."""
    count, total = model.replica_count, model.memory_bytes
    each = f" ({count} replicas of {total // count})" if count > 1 else ""
    return f"about {total} bytes{each}"


def _advice(model: BudgetedModel) -> str:
    """Return the options by which a model takes less memory, as words."""
    fewer = _fewer_replicas(model)
    return f"Load it with {fewer}a smaller `context_size` or `max_sequences`, or with `quantization` int8."


def _fewer_replicas(model: BudgetedModel) -> str:
    return "fewer `replicas`, " if model.replica_count > 1 else ""


def _may_be_drained(model: BudgetedModel) -> bool:
    return model.is_loaded and not model.is_reserved


def _usage(model: BudgetedModel, now: float) -> str:
    return f"{model.model_id}:{f'{now - model.used_at:.3f}' if model.is_idle else 'busy'}"
