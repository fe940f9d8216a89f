"""The client of pools, which sends a request to a member, and to another one if that fails before its first token.

Members are models of other servers, or replicas of a model on this machine.
"""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol, TypeVar

import structlog

from inference.engine import (
    ContextLengthExceeded,
    EmbeddingRequest,
    EmbeddingResult,
    EngineDied,
    EngineError,
    EngineOverloaded,
    FinishReason,
    GenerationOutput,
    GenerationRequest,
    GenerationStream,
    InferenceFailed,
    InvalidRequest,
    ModelNotLoaded,
    ScoringRequest,
    ScoringResult,
    Usage,
)
from inference.local.replicas import LocalReplica, ReplicaClient
from inference.pools import metrics
from inference.pools.affinity import affinity_key, choose_member, scoring_key
from inference.pools.definitions import REPLICA_SEPARATOR, Member, Pool
from inference.pools.models import EMBEDDINGS, TEXT_GENERATION
from inference.remote.client import RemoteClient
from inference.remote.configuration import RemoteModel
from inference.remote.errors import RemoteUnavailable
from inference.remote.health import RemoteHealth
from inference.remote.requests import build_generation_request
from inference.remote.streaming import Deadline, StreamFailure

MAX_TRIES = 3  # members that may have received the request: one that ends its server must not end all of them
MAX_UNREACHED_SECONDS = 10.0  # that a request waits in all for members that do not accept a connection
MALFORMED = "The remote server answered a request in another form than OpenAI's."
# Errors of a member that another one may not have. Of a client's mistake only what its dialect does not support is.
_MEMBER_ERRORS = (RemoteUnavailable, EngineDied, EngineOverloaded, ModelNotLoaded, InferenceFailed)

R = TypeVar("R")
Send = Callable[[Member], Awaitable[R]]

logger = structlog.get_logger(__name__)


class Generation(Protocol):
    """A generation that a member has accepted. is_streamed: its tokens arrive one by one."""

    is_streamed: bool

    @property
    def is_closed(self) -> bool: ...
    @property
    def prompt_tokens(self) -> int: ...
    async def push_outputs(self, stream: GenerationStream) -> None: ...
    async def close(self) -> None: ...


class MemberClient(Protocol):
    """The client of members of one kind. model: of a member, which says how to reach it."""

    async def generate(self, model: Any, request: GenerationRequest, deadline: Deadline) -> Generation: ...
    async def embed(self, model: Any, request: EmbeddingRequest) -> EmbeddingResult: ...
    async def check(self, model: Any) -> RemoteHealth: ...
    async def status(self, model: Any) -> RemoteHealth: ...
    def health(self, model: Any) -> RemoteHealth: ...
    def check_if_stale(self, model: Any) -> None: ...
    def record_failure(self, model: Any, reason: str) -> None: ...


class PoolClient:
    """A client of all pools. A process has one, shared by all its event loops.

    Its calls raise as those of RemoteClient and ReplicaClient do, once no member is left to try.
    """

    def __init__(self) -> None:
        self.remote = RemoteClient()
        self.local = ReplicaClient()
        self._loads: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()  # of the loads: a worker has an event loop per thread
        self._tasks: set[asyncio.Task[None]] = set()

    async def generate(self, pool: Pool, request: GenerationRequest) -> GenerationStream:
        """Return a stream once a member's response has begun. Closing it closes the connection to the member."""
        deadline = None if request.timeout is None else time.monotonic() + request.timeout

        async def send(member: Member) -> Generation:
            return await self.client_of(member).generate(member.model, request, deadline)

        def supports(member: Member) -> bool:
            if isinstance(member.model, LocalReplica):
                return True  # a mistake that it finds is the client's
            try:
                build_generation_request(member.model, request)
            except InvalidRequest:
                return False
            return True

        route = Route(self, pool, TEXT_GENERATION, affinity_key(request), supports)
        member, generation = await self.try_members(route, send)

        def cancel() -> None:
            task.cancel()

        stream = GenerationStream(request.request_id, cancel)
        stream.prompt_tokens = generation.prompt_tokens
        reader = _StreamReader(self, stream, route, send, member, generation)
        task = asyncio.get_running_loop().create_task(reader.run())
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._end_reader(task, reader))
        return stream

    async def embed(self, pool: Pool, request: EmbeddingRequest) -> EmbeddingResult:
        """Return one vector per text, in the order of the texts."""
        route = Route(self, pool, EMBEDDINGS, request.request_id.encode(), lambda member: True)
        send = self.client_of
        member, result = await self.try_members(route, lambda member: send(member).embed(member.model, request))
        self.client_of(member).health(member.model).record_completion()
        self.end(member, metrics.COMPLETED, Usage(result.prompt_tokens, 0))
        return result

    async def score(self, pool: Pool, request: ScoringRequest) -> ScoringResult:
        """Return the scores of a request to a pool of replicas: models of other servers have none."""

        async def send(member: Member) -> ScoringResult:
            if not isinstance(member.model, LocalReplica):
                raise InvalidRequest(f"The servers of {pool.model_id} have no scores.")
            return await self.local.score(member.model, request)

        route = Route(self, pool, TEXT_GENERATION, scoring_key(request), lambda member: True)
        member, result = await self.try_members(route, send)
        self.end(member, metrics.COMPLETED, Usage(result.prompt_tokens, 0, result.cached_tokens))
        return result

    def client_of(self, member: Member) -> MemberClient:
        """Return the client of a member's kind."""
        return self.local if member.is_local else self.remote

    async def check(self, member: Member) -> RemoteHealth:
        """Return the health of a member, read from its server if the last known health is stale."""
        return RemoteHealth(error=member.error) if member.error else await self.client_of(member).check(member.model)

    async def status(self, member: Member) -> RemoteHealth:
        """Return the last known health of a member, after a check the first time only."""
        return RemoteHealth(error=member.error) if member.error else await self.client_of(member).status(member.model)

    def is_up(self, member: Member) -> bool:
        """Return whether a member works, as last known, and start a check of it if that is some seconds ago."""
        if not member.error:
            self.client_of(member).check_if_stale(member.model)
        return not (member.error or self.client_of(member).health(member.model).error)

    def load(self, member: Member) -> int:
        """Return how many requests of this process a member is answering. A local one has those of its replicas."""
        if not member.is_local:
            return self._loads[member.key]
        keys = [key for key in list(self._loads) if key[0] == member.model.id]
        return sum(self._loads[key] for key in keys if key[1].partition(REPLICA_SEPARATOR)[0] == member.name)

    def choose(self, members: Sequence[Member], key: bytes) -> Member | None:
        """Return the member for a key: one that works, otherwise one that failed some seconds ago, otherwise None.

        Members that have not been heard of for some seconds are checked in the background, unless there is only one.
        One whose requests failed gets a single one at a time, until it completes it.
        """
        usable = [member for member in members if not member.error]
        if len(usable) > 1:
            for member in usable:
                self.client_of(member).check_if_stale(member.model)
        health = {member: self.client_of(member).health(member.model) for member in usable}
        working = [member for member in usable if health[member].error is None]
        trusted = [member for member in working if not (health[member].is_on_trial and self._loads[member.key])]
        candidates = trusted or working or [member for member in usable if not health[member].is_unavailable]
        return choose_member(key, candidates, self._loads) if candidates else None

    async def try_members(self, route: "Route", send: Send[R]) -> tuple[Member, R]:
        """Return the result of the first member that has one, which is then answering, and that member."""
        while True:
            member = route.next_member()
            self._add_load(member, 1)
            try:
                return member, await send(member)
            except EngineError as error:
                is_mistake = isinstance(error, InvalidRequest | ContextLengthExceeded)
                self.end(member, metrics.REJECTED if is_mistake else metrics.FAILED)
                if not route.may_repeat(member, error):
                    raise
            except BaseException:
                self.end(member, metrics.CANCELLED)
                raise

    def end(self, member: Member, outcome: str, usage: Usage | None = None) -> None:
        """Record that a member has ended a request."""
        self._add_load(member, -1)
        metrics.REQUESTS.add(1, *member.key, outcome)
        if usage:
            metrics.PROMPT_TOKENS.add(usage.prompt_tokens, *member.key)
            metrics.CACHED_TOKENS.add(usage.cached_tokens, *member.key)

    async def close(self) -> None:
        """Close the connections of this event loop, which cancels their requests."""
        await self.remote.close()
        await self.local.close()

    def _add_load(self, member: Member, count: int) -> None:
        with self._lock:
            self._loads[member.key] += count
        metrics.IN_FLIGHT.add(count, *member.key)

    def _end_reader(self, task: asyncio.Task[None], reader: "_StreamReader") -> None:
        """Close the generation of a reader that has ended, even of one that was cancelled before its first step."""
        self._tasks.discard(task)
        self.end(reader.member, reader.outcome, reader.usage)
        if not reader.generation.is_closed:
            closing = asyncio.get_running_loop().create_task(reader.generation.close())
            self._tasks.add(closing)
            closing.add_done_callback(self._tasks.discard)


class Route:
    """The members that one request may still be sent to. supports: whether a member's dialect has all it needs.

    sent_at: when it was sent to the last one, in monotonic seconds.
    """

    def __init__(
        self, client: PoolClient, pool: Pool, capability: str, key: bytes, supports: Callable[[Member], bool]
    ) -> None:
        self._client = client
        self._pool = pool
        self._key = key
        self._supports = supports
        self._members = [member for member in pool.members_for(capability) if not member.is_draining]
        self._tries = 0
        self.sent_at = 0.0
        self._unreached_seconds = 0.0
        self._is_repeated = False
        # Of the first member, of those that support the request if any does, and of replicas that are loaded if one is.
        self._error: EngineError | None = None

    def next_member(self) -> Member:
        """Return the member to try next. If there is none, raise the error of an earlier one, or RemoteUnavailable."""
        is_spent = self._tries >= MAX_TRIES or self._unreached_seconds >= MAX_UNREACHED_SECONDS
        member = None if is_spent else self._choose()
        if member is None:
            raise self._error or self._unavailable()
        self._members.remove(member)
        if self._is_repeated:
            metrics.FAILOVERS.add(1, *member.key)
            logger.info("pool_failover", model=member.model.id, member=member.name)
        self._tries += 1
        self.sent_at = time.monotonic()
        self._is_repeated = True
        return member

    def _choose(self) -> Member | None:
        """Return a member of the lowest order that has one which works."""
        for order in sorted({member.order for member in self._members}):
            members = [member for member in self._members if member.order == order]
            if member := self._client.choose(members, self._key):
                return member
        return None

    def may_repeat(self, member: Member, error: EngineError) -> bool:
        """Return whether another member may not have this error of a member, and note it."""
        is_unsupported = isinstance(error, InvalidRequest) and not self._supports(member)
        if not (isinstance(error, _MEMBER_ERRORS) or is_unsupported):
            return False
        is_unreached = isinstance(error, RemoteUnavailable) and not error.was_reached
        is_restarting = isinstance(error, ModelNotLoaded) and member.is_local
        if is_unreached:
            self._unreached_seconds += time.monotonic() - self.sent_at
        if is_unsupported or is_unreached or is_restarting:
            self._tries -= 1
        is_replaced = isinstance(self._error, InvalidRequest) and not is_unsupported
        # For a model that is not loaded a request is repeated, at once if another replica is.
        is_replaced |= isinstance(self._error, ModelNotLoaded) and member.is_local
        if self._error is None or is_replaced:
            self._error = error
        return True

    def _unavailable(self) -> RemoteUnavailable:
        model_id, members = self._pool.model_id, self._pool.members
        if all(member.is_draining for member in members):
            return RemoteUnavailable(f"The server of {model_id} is unavailable. It is being drained.")
        errors = [member.error or self._client.client_of(member).health(member.model).error for member in members]
        error = next(filter(None, errors), "")
        servers = "server of {} is" if len(members) == 1 else "servers of {} are"
        return RemoteUnavailable(f"The {servers.format(model_id)} unavailable. {error}".strip())


@dataclass(eq=False)
class _StreamReader:
    """The task that pushes a member's outputs to a stream, or those of another member if the first one fails early."""

    client: PoolClient
    stream: GenerationStream
    route: Route
    send: Send[Generation]
    member: Member
    generation: Generation
    outcome: str = metrics.CANCELLED
    usage: Usage | None = None
    is_begun: bool = False

    def __post_init__(self) -> None:
        self.stream.watch(self._record_first_token)
        self.stream.add_done_callback(self._set_usage)

    async def run(self) -> None:
        while True:
            try:
                await self.generation.push_outputs(self.stream)
                self.outcome = metrics.COMPLETED
                self.client.client_of(self.member).health(self.member.model).record_completion()
                return
            except StreamFailure as failure:
                if failure.is_malformed and not failure.was_begun:
                    self.client.client_of(self.member).record_failure(self.member.model, MALFORMED)
                if failure.is_hang and isinstance(self.member.model, RemoteModel):
                    self.client.remote.record_hang(self.member.model)
                if failure.was_begun or failure.is_timeout or not await self._repeat():
                    self.outcome = metrics.FAILED
                    self.stream.fail(failure.message, failure.code)
                    return

    async def _repeat(self) -> bool:
        """Send the request to another member, and return whether one answers."""
        failed = self.member
        try:
            self.member, self.generation = await self.client.try_members(self.route, self.send)
        except EngineError:
            return False
        self.client.end(failed, metrics.FAILED)
        return True

    def _record_first_token(self, output: GenerationOutput) -> None:
        """Record when a member's first token arrives, which is the first output: after it, no other one is tried."""
        if self.is_begun:
            return
        self.is_begun = True
        if self.generation.is_streamed and output.finish_reason not in (FinishReason.CANCELLED, FinishReason.ERROR):
            metrics.FIRST_TOKEN.observe(time.monotonic() - self.route.sent_at, *self.member.key)

    def _set_usage(self, usage: Usage) -> None:
        self.usage = usage


@cache
def pool_client() -> PoolClient:
    """Return the client of this process."""
    return PoolClient()
