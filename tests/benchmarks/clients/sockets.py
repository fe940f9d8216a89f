"""Tokens per second over event streams and WebSockets beside the same requests to the engine.

The models are the built-in one, and one of 125M parameters with random weights. It also measures GET /health with and
without a thousand idle WebSockets, and the memory of an idle WebSocket.
"""

import asyncio
import os
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

import httpx2
from websockets.asyncio.client import connect

from inference.builtin import DESCRIBER
from inference.engine import GenerationRequest, LoadOptions, SamplingParams
from inference.engine.models.kernel_build import FOLDER_VARIABLE, build_kernels
from tests.benchmarks._table import Comparison, arguments, publish
from tests.benchmarks.inference._engines import configurations, save_random
from tests.benchmarks.inference.streams import EventStreamClient
from tests.inference.running_server import RunningServer, running_server
from tests.inference.websocket_client import (
    receive_message,
    send_messages,
    server_process,
    thousand_websockets,
    websocket_url,
)

CHECKOUT = Path(__file__).resolve().parents[3]
STREAMS, SOCKETS = 64, 8
PROMPT = "The lamp"
TOKENS = {"stoa-describer": 200, "small": 100}


@dataclass(frozen=True)
class StreamRequest:
    """Request of each stream; every stream has its full length."""

    model: str
    tokens: int

    def body(self) -> dict[str, object]:
        body = {"model": self.model, "prompt": PROMPT, "max_tokens": self.tokens, "temperature": 0.7}
        return body | {"ignore_eos": True}


Run = Callable[[RunningServer, StreamRequest], Awaitable[None]]


async def engine_run(stoa: RunningServer, asked: StreamRequest) -> None:
    """Run the requests on the engine alone, over its own socket."""
    sampling = SamplingParams(max_tokens=asked.tokens, temperature=0.7, ignore_eos=True)

    async def one(number: int) -> None:
        request = GenerationRequest(request_id=f"bench{number}", prompt=PROMPT, sampling=sampling, user=str(number))
        async with await stoa.engine.generate(asked.model, request) as outputs:
            async for _ in outputs:
                pass

    await asyncio.gather(*map(one, range(STREAMS)))


async def events_run(stoa: RunningServer, asked: StreamRequest) -> None:
    client = EventStreamClient(stoa)
    await asyncio.gather(*(client.stream(asked.body()) for _ in range(STREAMS)))


async def sockets_run(stoa: RunningServer, asked: StreamRequest) -> None:
    each = STREAMS // SOCKETS

    async def one() -> None:
        async with connect(websocket_url(stoa)) as client:
            await send_messages(client, {"type": "auth", "token": stoa.keys["SUPER_ADMIN"]})
            await receive_message(client)
            await send_messages(
                client, *(asked.body() | {"type": "inference", "id": str(number)} for number in range(each))
            )
            left = each
            while left:
                message = await client.recv(decode=False)
                if message.startswith(b'{"type":"complete"'):
                    left -= 1
                elif not message.startswith(b'{"type":"token"'):
                    raise RuntimeError(f"The server said {message[:200]!r}.")

    await asyncio.gather(*(one() for _ in range(SOCKETS)))


async def measure(stoa: RunningServer, run: Run, asked: StreamRequest) -> tuple[float, float]:
    """Return the tokens per second, and the web process's CPU microseconds per token."""
    cpu_before, began = server_process(stoa).cpu_times(), time.perf_counter()
    await run(stoa, asked)
    took, cpu = time.perf_counter() - began, server_process(stoa).cpu_times()
    made = STREAMS * asked.tokens
    return made / took, 1e6 * (cpu.user + cpu.system - cpu_before.user - cpu_before.system) / made


async def compare(stoa: RunningServer, folder: Path, *, rounds: int, tokens: int) -> list[Comparison]:
    """Measure in turns, so that a disturbance of the machine affects all."""
    name = folder.name
    await stoa.host.load(name, folder, LoadOptions(max_sequences=STREAMS))
    runs: dict[str, Run] = {"engine": engine_run, "events": events_run, "sockets": sockets_run}
    rates: dict[str, list[tuple[float, float]]] = {run: [] for run in runs}
    await engine_run(stoa, StreamRequest(name, 5))
    for _ in range(rounds):
        for run_name, run in runs.items():
            rates[run_name].append(await measure(stoa, run, StreamRequest(name, tokens)))
    await stoa.engine.close()
    await stoa.host.unload(name)
    rate = {run: statistics.median(one for one, _ in measured) for run, measured in rates.items()}
    cpu = {run: statistics.median(one for _, one in measured) for run, measured in rates.items()}
    return [
        Comparison(f"{name}, {STREAMS} event streams", rate["events"], rate["engine"], "tokens/s, the engine"),
        Comparison(
            f"{name}, {STREAMS} over {SOCKETS} sockets", rate["sockets"], rate["engine"], "tokens/s, the engine"
        ),
        Comparison(f"{name}, CPU of the web process, sockets", cpu["sockets"], cpu["events"], "us/token, events"),
    ]


async def idle(stoa: RunningServer) -> list[Comparison]:
    """Row S8: at most 64 KiB for each WebSocket, and a p99 of /health of 50 ms."""
    server = server_process(stoa)
    without, before = await health_ms(stoa), server.memory_info().rss
    async with thousand_websockets(stoa) as clients:
        kib = (server.memory_info().rss - before) / 1024 / len(clients)
        beside = await health_ms(stoa)
    return [
        Comparison(f"/health beside {len(clients)} idle sockets, p50", beside[49], without[49], "ms, without"),
        Comparison(f"/health beside {len(clients)} idle sockets, p99", beside[98], without[98], "ms, without"),
        Comparison("memory of an idle socket", kib, 64, "KiB, the limit"),
    ]


async def health_ms(stoa: RunningServer) -> list[float]:
    """Return the percentiles of a thousand requests over 20 s, which is longer than the ping interval."""
    taken = []
    async with httpx2.AsyncClient(base_url=stoa.url) as client:
        for _ in range(1000):
            began = time.perf_counter()
            (await client.get("/health")).raise_for_status()
            taken.append(1000 * (time.perf_counter() - began))
            await asyncio.sleep(0.02)
    return statistics.quantiles(taken, n=100)


def main() -> None:
    given = arguments(__doc__ or "")
    os.environ.setdefault(FOLDER_VARIABLE, str(CHECKOUT / "var" / "compiled"))
    build_kernels()
    results: list[Comparison] = []
    with tempfile.TemporaryDirectory(prefix="stoa") as home:
        models = Path(home) / "models"
        models.mkdir()
        folders = [DESCRIBER]
        if not given.quick:
            folders.append(save_random(models / "small", configurations()["small"]))
        with running_server(Path(home), Path(home) / "run", models, load=[]) as stoa:
            for folder in folders:
                tokens = 50 if given.quick else TOKENS[folder.name]
                results += asyncio.run(compare(stoa, folder, rounds=1 if given.quick else 3, tokens=tokens))
            results += asyncio.run(idle(stoa))
    publish(results, given.json)


if __name__ == "__main__":
    main()
