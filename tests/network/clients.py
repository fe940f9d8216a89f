"""Clients that repeat a request until its outcome is known, and a run of numbered operations by many of them."""

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn

import httpx2

from tests.network.relay import FaultyNetwork

RESPONSE_TIMEOUT_SECONDS = 30.0
RECOVERY_SECONDS = 60.0
PAUSE_SECONDS = 0.2
UNKNOWN = frozenset({408, 409, 429, 502, 503, 504})  # repeated; of 409 only with Retry-After
GIVE_UP_SHARE = 0.2  # of the operations whose clients do not repeat a request

Operation = Callable[[int, random.Random], Awaitable[None]]


class GaveUp(Exception):
    """Raised where a client does not repeat a request whose outcome it does not know."""


class Stuck(Exception):
    """Raised where an outcome is still unknown a minute after the last fault."""


class Operations(ABC):
    """Numbered operations on a server, with what the clients know of their outcomes.

    outcomes: what single requests ended with. violations: responses that no fault explains.
    """

    def __init__(self, url: str) -> None:
        self.url = url
        self.outcomes: Counter[str] = Counter()
        self.violations: list[str] = []
        self.given_up: set[int] = set()
        self.faults_ended_at: float | None = None
        self.all_begun = asyncio.Event()
        self._client: httpx2.AsyncClient | None = None

    @abstractmethod
    def kinds(self) -> Mapping[str, tuple[Operation, int]]:
        """Return the operations by name, with their weights."""

    async def run(self, numbers: Iterable[int], *, seed: int, clients: int) -> None:
        """Run the operations of these numbers: which and with what follows from the seed and the number."""
        waiting = iter(numbers)
        try:
            async with httpx2.AsyncClient(timeout=RESPONSE_TIMEOUT_SECONDS) as self._client:
                await asyncio.gather(*(self._work(waiting, seed) for _ in range(clients)))
        finally:
            self.all_begun.set()

    async def _work(self, waiting: Iterator[int], seed: int) -> None:
        for number in waiting:
            await self._operate(number, random.Random(f"{seed} {number}"))
        self.all_begun.set()

    async def _operate(self, number: int, dice: random.Random) -> None:
        kinds = self.kinds()
        name = dice.choices(list(kinds), [weight for _, weight in kinds.values()])[0]
        if dice.random() < GIVE_UP_SHARE:
            self.given_up.add(number)
        try:
            await kinds[name][0](number, dice)
            self.outcomes[f"{name}, known"] += 1
        except GaveUp:
            self.outcomes[f"{name}, given up"] += 1
        except Stuck as error:
            self.violations.append(f"operation {number}, {name}: stuck at {error}")

    async def ask(
        self, number: int, method: str, path: str, *, expected: tuple[int, ...] = (200, 201), **options: Any
    ) -> httpx2.Response:
        """Repeat a request until its outcome is known, and return the response. A POST has a key of the operation.

        Raise GaveUp if the client of this operation does not repeat, and Stuck if the outcome stays unknown.
        """
        headers = dict(options.pop("headers", {}))
        if method == "POST":
            headers["Idempotency-Key"] = f"operation-{number}-{path}"
        while True:
            response = await self.attempt(method, path, headers=headers, **options)
            if response is not None and not is_unknown(response):
                if response.status_code not in expected:
                    self.report(number, method, path, response)
                return response
            if number in self.given_up:
                raise GaveUp
            if self.faults_ended_at is not None and time.monotonic() > self.faults_ended_at + RECOVERY_SECONDS:
                raise Stuck(f"{method} {path}: {response.text[:300] if response else 'no response'}")
            await asyncio.sleep(PAUSE_SECONDS)

    async def attempt(self, method: str, path: str, **options: Any) -> httpx2.Response | None:
        """Send a request once; return None if the connection fails."""
        assert self._client is not None
        began = time.monotonic()
        try:
            response = await self._client.request(method, self.url + path, **options)
        except (httpx2.HTTPError, OSError) as error:
            self.outcomes[type(error).__name__] += 1
            if isinstance(error, httpx2.ReadTimeout):
                self.violations.append(f"{method} {path}: no response in {time.monotonic() - began:.0f} s")
            return None
        self.outcomes[str(response.status_code)] += 1
        return response

    def report(self, number: int, method: str, path: str, response: httpx2.Response) -> NoReturn:
        """Record a response that no fault explains, and end the operation."""
        self.violations.append(f"operation {number}: {method} {path}: {response.status_code} {response.text[:500]}")
        raise GaveUp


def is_unknown(response: httpx2.Response) -> bool:
    """Return whether the request may be carried out yet, or failed for a reason that passes."""
    if response.status_code == 409:
        return "retry-after" in response.headers
    if response.status_code == 500:  # a part that the model server uses has failed
        return '"INFERENCE_FAILED"' in response.text or '"server_error"' in response.text
    return response.status_code in UNKNOWN


async def run_under_faults(
    network: FaultyNetwork, parts: Sequence[Operations], count: int, *, seed: int, clients: int
) -> None:
    """Run operations of each part. The faults end when all have begun; then the rest has a minute to become known."""
    with network.faults():
        running = [asyncio.create_task(part.run(range(count), seed=seed, clients=clients)) for part in parts]
        for part in parts:
            await part.all_begun.wait()
    for part in parts:
        part.faults_ended_at = time.monotonic()
    await asyncio.gather(*running)
