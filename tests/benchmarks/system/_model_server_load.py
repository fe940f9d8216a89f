"""Load on the model server over TLS: streams, unstreamed requests, WebSockets and a batch."""

import asyncio
import json
import time
from collections import Counter
from collections.abc import Mapping

import httpx2
from websockets.asyncio.client import connect
from websockets.exceptions import ConnectionClosed, InvalidHandshake, InvalidStatus

from tests.benchmarks.system._load import Action, LoadGenerator

MODEL = "stoa-describer"
STREAM = {"model": MODEL, "prompt": "The Oakhurst lamp is", "max_tokens": 120, "ignore_eos": True}
UNSTREAMED = {"model": MODEL, "prompt": "The Brunvale teapot is", "max_tokens": 8, "ignore_eos": True}
START_TIMEOUT_SECONDS = 120.0
BATCH_TIMEOUT_SECONDS = 300.0


class ModelServerLoad(LoadGenerator):
    """Load on the model server, by this number of clients of each kind; `pause_s` is the pause between requests."""

    def __init__(
        self,
        address: str,
        name: str,
        key: str,
        *,
        batch_size: int,
        streamers: int = 6,
        askers: int = 4,
        sockets: int = 3,
        pause_s: float = 0.1,
    ) -> None:
        self._batch_size, self._pause_s = batch_size, pause_s
        self._how_many = (streamers, askers, sockets)
        self._batch_id = ""
        super().__init__(address, name, key)

    def actions(self) -> Mapping[str, tuple[Action, int, float]]:
        each: tuple[tuple[str, Action], ...] = (
            ("streams", self._stream),
            ("answers", self._ask),
            ("sockets", self._socket),
        )
        return {
            kind: (action, count, self._pause_s) for (kind, action), count in zip(each, self._how_many, strict=True)
        }

    def submit_batch(self) -> None:
        """Wait for the first complete stream, and then submit the batch."""
        deadline = time.monotonic() + START_TIMEOUT_SECONDS
        while not self.counts()["streams"]["complete"]:
            assert time.monotonic() < deadline, self.counts()
            time.sleep(0.2)
        requests = [{"id": str(number), "prompt": f"Product {number} is"} for number in range(self._batch_size)]
        body = {"model": MODEL, "requests": requests, "max_tokens": 48, "ignore_eos": True}
        with self.client() as client:
            answer = client.post("/batch", json=body, extensions=self.sni())
            answer.raise_for_status()
            self._batch_id = str(answer.json()["batch_id"])

    def wait_for_batch(self) -> str:
        """Wait for the end of the batch and return a summary."""
        deadline = time.monotonic() + BATCH_TIMEOUT_SECONDS
        with self.client() as client:
            path = f"/batch/{self._batch_id}"
            while (status := client.get(path, extensions=self.sni()).json())["status"] == "processing":
                assert time.monotonic() < deadline, status
                time.sleep(1)
            lines = {"Accept": "application/x-ndjson"}
            results = client.get(f"{path}/results", headers=lines, extensions=self.sni()).text
        ids = Counter(json.loads(line)["id"] for line in results.splitlines())
        once = sum(1 for count in ids.values() if count == 1)
        return (
            f"{status['status']}: {status['completed']} completed, {status['failed']} failed; {once} ids exactly once"
        )

    async def _stream(self, client: httpx2.AsyncClient) -> str:
        begun = False
        try:
            async with client.stream("POST", "/inference/stream", json=STREAM, extensions=self.sni()) as answer:
                if answer.status_code != 200:
                    await answer.aread()
                    return str(answer.status_code)
                async for line in answer.aiter_lines():
                    begun = begun or line.startswith("data: ")
                    if line.startswith('data: {"done"'):
                        return "complete"
                    if line.startswith('data: {"error"'):
                        return f"ended by {json.loads(line[6:])['error']['code']}"
        except httpx2.HTTPError:
            if not begun:
                raise
        return "broken off"

    async def _ask(self, client: httpx2.AsyncClient) -> str:
        return str((await client.post("/inference", json=UNSTREAMED, extensions=self.sni())).status_code)

    async def _socket(self, _: httpx2.AsyncClient) -> str:
        """Use one WebSocket until it is closed."""
        try:
            async with connect(
                f"wss://{self._name}/ws", host=self._address, port=443, ssl=self._tls, open_timeout=30, proxy=None
            ) as socket:
                await socket.send(json.dumps({"type": "auth", "token": self._key}))
                number = 0
                while True:
                    number += 1
                    await socket.send(
                        json.dumps(UNSTREAMED | {"type": "inference", "id": str(number), "stream": False})
                    )
                    while (frame := json.loads(await socket.recv()))["type"] not in ("complete", "error"):
                        pass
                    self.record("sockets", "complete" if frame["type"] == "complete" else f"ended by {frame['code']}")
                    await asyncio.sleep(self._pause_s)
        except ConnectionClosed as closed:
            return f"closed {closed.rcvd.code}" if closed.rcvd else "broken off"
        except InvalidStatus as refused:
            return str(refused.response.status_code)
        except InvalidHandshake:
            return "broken off"
        except TimeoutError:
            return "no answer"
