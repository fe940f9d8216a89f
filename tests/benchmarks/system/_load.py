"""Load generator: clients that repeat their actions over TLS until it is stopped."""

import asyncio
import ssl
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httpx2

SUCCESSES = ("complete", "200", "201")
CALM_SECONDS, RECOVERY_TIMEOUT_SECONDS = 5.0, 120.0

# Performs one action once and returns its outcome: a status, or a word.
Action = Callable[[httpx2.AsyncClient], Awaitable[str]]


class LoadGenerator(ABC):
    """Clients that repeat their actions until the block ends; `counts` has the outcomes since `reset`."""

    def __init__(self, address: str, name: str, key: str) -> None:
        self._address, self._name, self._key = address, name, key
        self._tls = ssl.create_default_context()
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__)
        self._errors: list[BaseException] = []
        self.reset()

    @abstractmethod
    def actions(self) -> Mapping[str, tuple[Action, int, float]]:
        """Return each action by its name, with the number of its clients and the pause of a client in seconds."""

    def reset(self) -> None:
        with self._lock:
            self._counts: dict[str, Counter[str]] = {kind: Counter() for kind in self.actions()}
            self._last_success_at, self._longest_outage = time.monotonic(), 0.0
            self._last_failure_at = 0.0
            self._succeeded_at = dict.fromkeys(self.actions(), 0.0)

    def counts(self) -> dict[str, Counter[str]]:
        with self._lock:
            return {kind: Counter(outcomes) for kind, outcomes in self._counts.items()}

    def longest_outage_seconds(self) -> float:
        """Return the longest time without any successful action."""
        with self._lock:
            return max(self._longest_outage, time.monotonic() - self._last_success_at)

    def wait_until_stable(self) -> None:
        """Wait until every action has succeeded and none has failed for CALM_SECONDS."""
        began = time.monotonic()
        while True:
            now = time.monotonic()
            with self._lock:
                since = max(self._last_failure_at, began)
                if now - since > CALM_SECONDS and all(at > since for at in self._succeeded_at.values()):
                    return
            assert now - began < RECOVERY_TIMEOUT_SECONDS, self.counts()
            time.sleep(0.2)

    def record(self, kind: str, outcome: str) -> None:
        with self._lock:
            self._counts[kind][outcome] += 1
            if outcome in SUCCESSES:
                now = time.monotonic()
                self._longest_outage, self._last_success_at = (
                    max(self._longest_outage, now - self._last_success_at),
                    now,
                )
                self._succeeded_at[kind] = now
            else:
                self._last_failure_at = time.monotonic()

    def __enter__(self) -> "LoadGenerator":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()
        if self._errors:
            raise self._errors[0]

    def client(self) -> httpx2.Client:
        """Return a client for single requests outside the event loop."""
        return httpx2.Client(verify=self._tls, **self._client_options())

    def sni(self) -> dict[str, str]:
        return {"sni_hostname": self._name}

    def _client_options(self) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._key}", "Host": self._name}
        return {"base_url": f"https://{self._address}", "headers": headers, "timeout": 60}

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._run_clients())

    async def _run_clients(self) -> None:
        async with httpx2.AsyncClient(verify=self._tls, **self._client_options()) as client:
            tasks = [
                asyncio.create_task(self._repeat(kind, action, pause_s, client))
                for kind, (action, count, pause_s) in self.actions().items()
                for _ in range(count)
            ]
            await self._ending.wait()
            for task in tasks:
                task.cancel()
            ended = await asyncio.gather(*tasks, return_exceptions=True)
        self._errors = [error for error in ended if isinstance(error, Exception)]

    async def _repeat(self, kind: str, action: Action, pause_s: float, client: httpx2.AsyncClient) -> None:
        while True:
            try:
                outcome = await action(client)
            except (httpx2.HTTPError, OSError) as error:
                outcome = type(error).__name__
            self.record(kind, outcome)
            await asyncio.sleep(pause_s)
