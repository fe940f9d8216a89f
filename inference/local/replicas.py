"""The client of replicas, which sends one request to one process of a model on this machine."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeVar

import msgspec

from inference.engine import (
    EmbeddingRequest,
    EmbeddingResult,
    EngineDied,
    EngineError,
    GenerationRequest,
    GenerationStream,
    ModelNotLoaded,
    ScoringRequest,
    ScoringResult,
)
from inference.local.clients import engine, host
from inference.remote.health import RemoteHealth
from inference.remote.streaming import Deadline, StreamFailure

CHECK_SECONDS = 5.0
STATUS_SECONDS = 0.5  # the host answers at once, unless it waits for a restart
CHECK_INTERVAL_SECONDS = 0.5  # of a replica that failed: small ones are back in a second

R = TypeVar("R")


@dataclass(frozen=True)
class LocalReplica:
    """A process of a model on this machine. number: 0 for the first, or None for any that is ready.

    It says itself what it cannot do, and what its context is.
    """

    id: str
    number: int | None
    capabilities: tuple[str, ...] = ()
    context_size: int = 0

    @property
    def name(self) -> str:
        return self.id


class ReplicaHealth(RemoteHealth):
    """A replica's last known health. Another request costs nothing: the model host says at once if it is not ready."""

    @property
    def is_stale(self) -> bool:
        return time.monotonic() > self.checked_at + CHECK_INTERVAL_SECONDS

    @property
    def is_unavailable(self) -> bool:
        return False


@dataclass(eq=False)
class LocalGeneration:
    """A generation that a replica has accepted. on_failure: called if its process ends.

    is_streamed: its tokens arrive one by one.
    """

    source: GenerationStream
    on_failure: Callable[[str], None]
    is_streamed: bool
    is_closed: bool = False

    @property
    def prompt_tokens(self) -> int:
        return self.source.prompt_tokens

    async def push_outputs(self, stream: GenerationStream) -> None:
        """Let the outputs go to a stream, as they arrive, until it ends. Raise StreamFailure."""
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def finish(_: object) -> None:
            self.is_closed = True
            if not ended.done():
                ended.set_result(None)

        def fail(message: str, code: str | None, was_begun: bool) -> None:
            self.is_closed = True
            if code == EngineDied.__name__:
                self.on_failure(message)
            if not ended.done():
                ended.set_exception(StreamFailure(message, code, was_begun=was_begun))

        self.source.forward(stream, fail)
        self.source.add_done_callback(finish)  # not the stream's: that one also ends when its reader leaves
        await ended

    async def close(self) -> None:
        """Cancel the generation."""
        self.is_closed = True
        await self.source.close()


class ReplicaClient:
    """A client of the replicas of this machine's models. A process has one, shared by all its event loops.

    Its calls raise as those of `EngineClient` do.
    """

    def __init__(self) -> None:
        self._health: dict[LocalReplica, ReplicaHealth] = {}
        self._checks: dict[LocalReplica, asyncio.Task[RemoteHealth]] = {}

    async def generate(self, replica: LocalReplica, request: GenerationRequest, deadline: Deadline) -> LocalGeneration:
        """Return a generation once the replica has accepted it. The engine keeps the time limit of the request.

        Time that the request has spent at another replica counts. Replicas have queues of their own: a request's other
        prompts may be at another one.
        """
        if replica.number is not None:
            request = msgspec.structs.replace(request, places=1)
        if deadline is not None:
            request = msgspec.structs.replace(request, timeout=max(0.001, deadline - time.monotonic()))
        stream = await self._call(replica, engine().generate(replica.id, request, replica=replica.number))
        return LocalGeneration(
            stream, lambda message: self.record_failure(replica, message), not request.coalesce_outputs
        )

    async def embed(self, replica: LocalReplica, request: EmbeddingRequest) -> EmbeddingResult:
        """Return one vector per text, in the order of the texts."""
        return await self._call(replica, engine().embed(replica.id, request, replica=replica.number))

    async def score(self, replica: LocalReplica, request: ScoringRequest) -> ScoringResult:
        """Return the scores of a request."""
        return await self._call(replica, engine().score(replica.id, request, replica=replica.number))

    def health(self, replica: LocalReplica) -> RemoteHealth:
        """Return the last known health of a replica."""
        return self._health.setdefault(replica, ReplicaHealth())

    def check_if_stale(self, replica: LocalReplica) -> None:
        """Start a check in the background of a replica that failed. Of one that works, a lost connection tells.

        A whole model may be unloaded without a word, so it is always checked.
        """
        health = self.health(replica)
        may_differ = health.error is not None or replica.number is None
        if may_differ and health.is_stale and replica not in self._checks:
            check = self._checks[replica] = asyncio.get_running_loop().create_task(self.status(replica))
            check.add_done_callback(lambda _: self._checks.pop(replica, None))

    async def status(self, replica: LocalReplica) -> RemoteHealth:
        """Return the health of a replica, as the model host knows it. A model that restarts is not waited for."""
        return await self._ask_host(replica, STATUS_SECONDS)

    async def check(self, replica: LocalReplica) -> RemoteHealth:
        """Return the health of a replica, as the model host knows it. A busy host has some seconds to answer."""
        return await self._ask_host(replica, CHECK_SECONDS)

    def record_failure(self, replica: LocalReplica, reason: str) -> None:
        """Record that a replica does not work, so that others are asked first."""
        self.health(replica).record_failure(reason)

    async def close(self) -> None:
        """End the checks and the connections of this event loop, which cancels their requests."""
        loop = asyncio.get_running_loop()
        for check in [check for check in self._checks.values() if check.get_loop() is loop]:
            check.cancel()
        await engine().close()

    async def _call(self, replica: LocalReplica, call: Awaitable[R]) -> R:
        try:
            result = await call
        except (EngineDied, ModelNotLoaded) as error:
            self.record_failure(replica, error.message)
            raise
        self._record_success(replica)
        return result

    def _record_success(self, replica: LocalReplica) -> None:
        self.health(replica).record_success()

    async def _ask_host(self, replica: LocalReplica, seconds: float) -> RemoteHealth:
        try:
            async with asyncio.timeout(seconds):
                await host().find(replica.id, replica.number)
        except TimeoutError:
            self.record_failure(replica, f"{replica.id} is restarting, or the model host is busy.")
        except EngineError as error:
            self.record_failure(replica, error.message)
        else:
            self._record_success(replica)
        return self.health(replica)
