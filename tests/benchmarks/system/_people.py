"""Who asks a server over TLS all the time, some of them for each thing that they do."""

import asyncio
import ssl
import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

import httpx2

GOOD = ("whole", "200", "201")
CALM_S, WELL_WITHIN_S = 5.0, 120.0

# Does one thing once, and says what came of it.
Habit = Callable[[httpx2.AsyncClient], Awaitable[str]]


class People(ABC):
    """They ask all the time until the block ends; `counts` are of what happened since `begin_anew`, by what they do."""

    def __init__(self, address: str, name: str, key: str) -> None:
        self._address, self._name, self._key = address, name, key
        self._tls = ssl.create_default_context()
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE
        self._lock = threading.Lock()
        self._loop = asyncio.new_event_loop()
        self._ending = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name=type(self).__name__)
        self._broken: list[BaseException] = []
        self.begin_anew()

    @abstractmethod
    def habits(self) -> Mapping[str, tuple[Habit, int, float]]:
        """What they do, each with how many of them, and how many seconds one rests between two times."""

    def begin_anew(self) -> None:
        with self._lock:
            self._counts: dict[str, Counter[str]] = {kind: Counter() for kind in self.habits()}
            self._well_at, self._gap_s = time.monotonic(), 0.0
            self._ill_at = 0.0
            self._served_at = dict.fromkeys(self.habits(), 0.0)

    def counts(self) -> dict[str, Counter[str]]:
        with self._lock:
            return {kind: Counter(counted) for kind, counted in self._counts.items()}

    def worst_gap_s(self) -> float:
        """The longest time in which nobody at all was served."""
        with self._lock:
            return max(self._gap_s, time.monotonic() - self._well_at)

    def wait_until_well(self) -> None:
        """Until all kinds of users are served, and nobody has not been for some seconds."""
        began = time.monotonic()
        while True:
            now = time.monotonic()
            with self._lock:
                since = max(self._ill_at, began)
                if now - since > CALM_S and all(at > since for at in self._served_at.values()):
                    return
            assert now - began < WELL_WITHIN_S, self.counts()
            time.sleep(0.2)

    def note(self, kind: str, outcome: str) -> None:
        with self._lock:
            self._counts[kind][outcome] += 1
            if outcome in GOOD:
                now = time.monotonic()
                self._gap_s, self._well_at = max(self._gap_s, now - self._well_at), now
                self._served_at[kind] = now
            else:
                self._ill_at = time.monotonic()

    def __enter__(self) -> "People":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()
        if self._broken:
            raise self._broken[0]

    def client(self) -> httpx2.Client:
        """For who asks once, outside the loop."""
        return httpx2.Client(verify=self._tls, **self._how())

    def sni(self) -> dict[str, str]:
        return {"sni_hostname": self._name}

    def _how(self) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._key}", "Host": self._name}
        return {"base_url": f"https://{self._address}", "headers": headers, "timeout": 60}

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._all())

    async def _all(self) -> None:
        async with httpx2.AsyncClient(verify=self._tls, **self._how()) as client:
            doing = [
                asyncio.create_task(self._again(kind, habit, pause_s, client))
                for kind, (habit, count, pause_s) in self.habits().items()
                for _ in range(count)
            ]
            await self._ending.wait()
            for one in doing:
                one.cancel()
            ended = await asyncio.gather(*doing, return_exceptions=True)
        self._broken = [error for error in ended if isinstance(error, Exception)]

    async def _again(self, kind: str, habit: Habit, pause_s: float, client: httpx2.AsyncClient) -> None:
        while True:
            try:
                outcome = await habit(client)
            except (httpx2.HTTPError, OSError) as error:
                outcome = type(error).__name__
            self.note(kind, outcome)
            await asyncio.sleep(pause_s)
