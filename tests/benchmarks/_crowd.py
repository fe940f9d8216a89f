"""Users of the model server over TLS: who streams, who asks for whole answers, who holds a WebSocket, and a batch."""

import asyncio
import json
import ssl
import threading
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import httpx2
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

MODEL = "stoa-describer"
STREAMERS, ASKERS, SOCKETS = 6, 4, 3
STREAM = {"model": MODEL, "prompt": "The Oakhurst lamp is", "max_tokens": 120, "ignore_eos": True}
ANSWER = {"model": MODEL, "prompt": "The Brunvale teapot is", "max_tokens": 8, "ignore_eos": True}
PAUSE_S = 0.1
SERVED_WITHIN_S = 120.0
CALM_S, WELL_WITHIN_S = 5.0, 120.0
BATCH_WITHIN_S = 300.0
KINDS = ("streams", "answers", "sockets")


class Crowd:
    """They ask all the time until the block ends; `counts` are of what happened since `begin_anew`."""

    def __init__(self, address: str, name: str, key: str, *, quick: bool) -> None:
        self._address, self._name, self._key = address, name, key
        self._batch_size = 200 if quick else 1000
        self._tls = ssl.create_default_context()
        self._tls.check_hostname, self._tls.verify_mode = False, ssl.CERT_NONE
        self._lock = threading.Lock()
        self.begin_anew()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name="crowd")
        self._batch_id = ""

    def begin_anew(self) -> None:
        with self._lock:
            self._counts: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
            self._well_at, self._gap_s = time.monotonic(), 0.0
            self._ill_at = 0.0
            self._served_at = dict.fromkeys(KINDS, 0.0)

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

    def __enter__(self) -> "Crowd":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._ending.set)
        self._thread.join()

    def wait_until_served(self) -> None:
        """And give in the batch."""
        deadline = time.monotonic() + SERVED_WITHIN_S
        while not self.counts()["streams"]["whole"]:
            assert time.monotonic() < deadline, self.counts()
            time.sleep(0.2)
        requests = [{"id": str(number), "prompt": f"Product {number} is"} for number in range(self._batch_size)]
        body = {"model": MODEL, "requests": requests, "max_tokens": 48, "ignore_eos": True}
        with self._client() as client:
            answer = client.post("/batch", json=body, extensions=self._sni())
            answer.raise_for_status()
            self._batch_id = str(answer.json()["batch_id"])

    def finish_batch(self) -> str:
        """What came of it, once it has ended."""
        deadline = time.monotonic() + BATCH_WITHIN_S
        with self._client() as client:
            path = f"/batch/{self._batch_id}"
            while (told := client.get(path, extensions=self._sni()).json())["status"] == "processing":
                assert time.monotonic() < deadline, told
                time.sleep(1)
            lines = {"Accept": "application/x-ndjson"}
            results = client.get(f"{path}/results", headers=lines, extensions=self._sni()).text
        ids = Counter(json.loads(line)["id"] for line in results.splitlines())
        once = sum(1 for count in ids.values() if count == 1)
        return f"{told['status']}: {told['completed']} completed, {told['failed']} failed; {once} ids exactly once"

    def _client(self) -> httpx2.Client:
        return httpx2.Client(verify=self._tls, **self._how())

    def _how(self) -> dict[str, Any]:
        headers = {"Authorization": f"Bearer {self._key}", "Host": self._name}
        return {"base_url": f"https://{self._address}", "headers": headers, "timeout": 60}

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_until_complete(self._all())

    async def _all(self) -> None:
        self._ending = asyncio.Event()
        async with httpx2.AsyncClient(verify=self._tls, **self._how()) as client:
            doing = [asyncio.create_task(self._again("streams", self._stream, client)) for _ in range(STREAMERS)]
            doing += [asyncio.create_task(self._again("answers", self._ask, client)) for _ in range(ASKERS)]
            doing += [asyncio.create_task(self._again("sockets", self._socket, client)) for _ in range(SOCKETS)]
            await self._ending.wait()
            for one in doing:
                one.cancel()
            await asyncio.gather(*doing, return_exceptions=True)

    async def _again(
        self, kind: str, do: Callable[[httpx2.AsyncClient], Awaitable[str]], client: httpx2.AsyncClient
    ) -> None:
        while True:
            try:
                outcome = await do(client)
            except (httpx2.HTTPError, OSError) as error:
                outcome = type(error).__name__
            self._note(kind, outcome)
            await asyncio.sleep(PAUSE_S)

    def _note(self, kind: str, outcome: str) -> None:
        with self._lock:
            self._counts[kind][outcome] += 1
            if outcome in ("whole", "200"):
                now = time.monotonic()
                self._gap_s, self._well_at = max(self._gap_s, now - self._well_at), now
                self._served_at[kind] = now
            else:
                self._ill_at = time.monotonic()

    async def _stream(self, client: httpx2.AsyncClient) -> str:
        begun = False
        try:
            async with client.stream("POST", "/inference/stream", json=STREAM, extensions=self._sni()) as answer:
                if answer.status_code != 200:
                    await answer.aread()
                    return str(answer.status_code)
                async for line in answer.aiter_lines():
                    begun = begun or line.startswith("data: ")
                    if line.startswith('data: {"done"'):
                        return "whole"
                    if line.startswith('data: {"error"'):
                        return f"ended by {json.loads(line[6:])['error']['code']}"
        except httpx2.HTTPError:
            if not begun:
                raise
        return "cut"

    async def _ask(self, client: httpx2.AsyncClient) -> str:
        return str((await client.post("/inference", json=ANSWER, extensions=self._sni())).status_code)

    def _sni(self) -> dict[str, str]:
        return {"sni_hostname": self._name}

    async def _socket(self, _: httpx2.AsyncClient) -> str:
        """A connection that is used until it is closed."""
        try:
            async with connect(
                f"wss://{self._name}/ws", host=self._address, port=443, ssl=self._tls, open_timeout=30, proxy=None
            ) as socket:
                await socket.send(json.dumps({"type": "auth", "token": self._key}))
                number = 0
                while True:
                    number += 1
                    await socket.send(json.dumps(ANSWER | {"type": "inference", "id": str(number), "stream": False}))
                    while (frame := json.loads(await socket.recv()))["type"] not in ("complete", "error"):
                        pass
                    self._note("sockets", "whole" if frame["type"] == "complete" else f"ended by {frame['code']}")
                    await asyncio.sleep(PAUSE_S)
        except ConnectionClosed as closed:
            return f"closed {closed.rcvd.code}" if closed.rcvd else "cut"
        except InvalidStatus as refused:
            return str(refused.response.status_code)
        except TimeoutError:
            return "no answer"
