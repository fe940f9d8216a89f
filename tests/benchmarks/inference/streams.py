"""Streams over HTTP beside the engine alone: the same models, prompts and lengths, in turns.

It also prints the time to the first token, the CPU time of the web process for each token, and, in a run of its own,
the latency of a probe. The clients run on the same machine and share its processor.
"""

import asyncio
import json
import os
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import uvloop

from inference.builtin import DESCRIBER
from inference.engine import HostClient, LoadOptions
from inference.engine.models.kernel_build import FOLDER_VARIABLE, build_kernels
from tests.benchmarks._table import Comparison, arguments, publish
from tests.benchmarks.inference._engines import BenchmarkEngine, configurations, prompts, save_random
from tests.inference.running_server import RunningServer, running_server

CHECKOUT = Path(__file__).resolve().parents[3]
PROMPT = 32
VOCABULARY = 100
TOKENS = {"stoa-describer": 256, "small": 256}
PROBE_EVERY_S = 0.02


@dataclass(frozen=True)
class StreamTiming:
    """Timing of concurrent streams; `cpu_us` is the server's CPU microseconds per token."""

    tokens_per_second: float
    first_tokens_ms: list[float]
    cpu_us: float


class EventStreamClient:
    """Clients of one server that read event streams."""

    def __init__(self, served: RunningServer) -> None:
        self._port = int(served.url.rpartition(":")[2])
        self._head = f"Host: localhost\r\nAuthorization: Bearer {served.keys['SUPER_ADMIN']}\r\n"
        self._process = next(
            connection.pid
            for connection in psutil.net_connections("tcp")
            if connection.status == psutil.CONN_LISTEN and connection.laddr.port == self._port
        )

    def run(self, model: str, texts: list[str], tokens: int) -> StreamTiming:
        return uvloop.run(self._run(model, texts, tokens))

    def probe(self, model: str, texts: list[str], tokens: int) -> list[float]:
        """Return the probes' milliseconds during the streams, sorted."""
        return uvloop.run(self._probe_beside(model, texts, tokens))

    async def _run(self, model: str, texts: list[str], tokens: int) -> StreamTiming:
        server = psutil.Process(self._process)
        before, began = sum(server.cpu_times()[:2]), time.perf_counter()
        first = await asyncio.gather(*(self.stream(body_of(model, text, tokens)) for text in texts))
        took = time.perf_counter() - began
        cpu = sum(server.cpu_times()[:2]) - before
        count = len(texts) * tokens
        return StreamTiming(count / took, [at * 1000 for at in first], cpu / count * 1e6)

    async def _probe_beside(self, model: str, texts: list[str], tokens: int) -> list[float]:
        probing = asyncio.create_task(self._probe())
        await asyncio.gather(*(self.stream(body_of(model, text, tokens)) for text in texts))
        probing.cancel()
        return sorted(await probing)

    async def stream(self, body: dict[str, object]) -> float:
        """Read one event stream to its end; return the seconds to the first token."""
        began = time.perf_counter()
        loop = asyncio.get_running_loop()
        request = self._request("POST /inference/stream", json.dumps(body))
        _, listener = await loop.create_connection(lambda: Listener(request), "127.0.0.1", self._port)
        await listener.ended
        if b'"done"' not in listener.tail:
            raise SystemExit(f"A stream broke off: {listener.tail.decode(errors='replace')}")
        return listener.first_at - began

    async def _probe(self) -> list[float]:
        """Return the milliseconds of /livez requests, sent until it is cancelled."""
        times: list[float] = []
        try:
            while True:
                began = time.perf_counter()
                reader, writer = await self._ask("GET /livez")
                await reader.read()
                writer.close()
                times.append((time.perf_counter() - began) * 1000)
                await asyncio.sleep(PROBE_EVERY_S)
        except asyncio.CancelledError:
            return times

    async def _ask(self, what: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(self._request(what))
        return reader, writer

    def _request(self, what: str, body: str = "") -> bytes:
        head = f"{what} HTTP/1.1\r\n{self._head}Connection: close\r\n"
        if body:
            head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
        return f"{head}\r\n{body}".encode()


def body_of(model: str, text: str, tokens: int) -> dict[str, object]:
    return {"model": model, "prompt": text, "max_tokens": tokens, "temperature": 0, "ignore_eos": True}


class Listener(asyncio.Protocol):
    """A minimal client: it shares the processor with the measured server."""

    def __init__(self, request: bytes) -> None:
        self.first_at = 0.0
        self.tail = b""
        self.ended = asyncio.get_running_loop().create_future()
        self._request = request

    def connection_made(self, transport: Any) -> None:
        transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if not self.first_at and b'"token"' in data:
            self.first_at = time.perf_counter()
        self.tail = data if len(data) >= 200 else (self.tail + data)[-200:]

    def connection_lost(self, error: Exception | None) -> None:
        self.ended.set_result(None)


def compare(
    client: EventStreamClient, name: str, folder: Path, counts: tuple[int, ...], rounds: int
) -> Iterator[Comparison]:
    tokens = TOKENS[name]
    alone = BenchmarkEngine(folder, max_sequences=max(counts))
    for count in counts:
        asked = prompts(count, PROMPT, VOCABULARY)
        texts = ["".join(chr(33 + token % 90) for token in ids) for ids in asked]
        through, engine = [], []
        for turn in range(rounds):
            # A new prompt each time: no prefix is in a cache.
            through.append(client.run(name, [f"{turn}{text}" for text in texts], tokens))
            engine.append(alone.run(asked, tokens).tokens_per_second)
        first = sorted(at for one in through for at in one.first_tokens_ms)
        probes = client.probe(name, [f"{rounds}{text}" for text in texts], tokens)
        print(
            f"{name}, {count} streams: first token p50 {_share(first, 0.5):.0f} ms, p99 {_share(first, 0.99):.0f} ms; "
            f"the web process {statistics.median(one.cpu_us for one in through):.0f} us a token; "
            f"/livez p50 {_share(probes, 0.5):.1f} ms, p99 {_share(probes, 0.99):.1f} ms"
        )
        rate = statistics.median(one.tokens_per_second for one in through)
        yield Comparison(f"{name}, {count} streams, over HTTP", rate, statistics.median(engine), "tokens/s")
    alone.close()


def _share(ordered: list[float], share: float) -> float:
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


async def load(host: HostClient, folder: Path, sequences: int) -> None:
    await host.load(folder.name, folder, LoadOptions(max_sequences=sequences))


def main() -> None:
    given = arguments(__doc__ or "")
    rounds, counts = (1, (16,)) if given.quick else (3, (1, 16, 64))
    os.environ.setdefault(FOLDER_VARIABLE, str(CHECKOUT / "var" / "compiled"))
    build_kernels()
    results: list[Comparison] = []
    with tempfile.TemporaryDirectory() as home:
        models = Path(home) / "models"
        folders = {"stoa-describer": DESCRIBER}
        if not given.quick:
            folders["small"] = save_random(models / "small", configurations()["small"])
        models.mkdir(exist_ok=True)
        with running_server(Path(home), Path(home) / "run", models, load=[]) as served:
            client = EventStreamClient(served)
            for name, folder in folders.items():
                asyncio.run(load(served.host, folder, max(counts)))
                results += compare(client, name, folder, counts, rounds)
                asyncio.run(served.host.unload(name))
    publish(results, given.json)


if __name__ == "__main__":
    main()
