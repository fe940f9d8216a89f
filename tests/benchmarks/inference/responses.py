"""Responses: the cost of storing a stream, and how soon a cut stream resumes on another web process.

Stored and unstored streams run in turns against the same server. After each cut another connection, to another web
process, reads the rest; the time is that to its first event.
"""

import asyncio
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import httpx2

from inference.builtin import DESCRIBER
from inference.engine.models.kernel_build import FOLDER_VARIABLE, build_kernels
from tests.benchmarks._table import Comparison, arguments, publish
from tests.benchmarks.inference.streams import CHECKOUT, load
from tests.inference.running_server import RunningServer, running_server, start_server

MODEL = DESCRIBER.name
TOKENS = 200
INPUT = "Write a product description.\nProduct name: Quellmar Kettle {}\nKeywords: quiet, copper base"


def body_of(number: int, *, store: bool) -> dict[str, Any]:
    return {
        "model": MODEL,
        "input": INPUT.format(number),
        "max_output_tokens": TOKENS,
        "seed": number,
        "stream": True,
        "store": store,
        "regex": "[a-z ]{4000}",  # never ends before its maximum
    }


async def read_stream(client: httpx2.AsyncClient, number: int, *, store: bool) -> None:
    """Read one stream to its end."""
    tail = b""
    async with client.stream("POST", "/v1/responses", json=body_of(number, store=store)) as response:
        async for piece in response.aiter_bytes():
            tail = (tail + piece)[-4096:]
    if b'"response.incomplete"' not in tail:
        raise SystemExit(f"A stream broke off: {tail.decode(errors='replace')}")


async def tokens_per_second(client: httpx2.AsyncClient, count: int, first: int, *, store: bool) -> float:
    began = time.perf_counter()
    await asyncio.gather(*(read_stream(client, first + number, store=store) for number in range(count)))
    return count * TOKENS / (time.perf_counter() - began)


async def resume_times(client: httpx2.AsyncClient, other: httpx2.AsyncClient, cuts: int) -> list[float]:
    """Return the milliseconds from each reconnect to its first event, sorted."""
    times: list[float] = []
    for number in range(cuts):
        response_id, seen = "", -1
        async with client.stream("POST", "/v1/responses", json=body_of(number, store=True)) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    event = json.loads(line.removeprefix("data: "))
                    seen = event["sequence_number"]
                    response_id = response_id or event["response"]["id"]
                    if seen >= 10 + number % 60:
                        break
        began = time.perf_counter()
        path = f"/v1/responses/{response_id}?stream=true&starting_after={seen}"
        async with other.stream("GET", path) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: "):
                    times.append((time.perf_counter() - began) * 1000)
                    break
    return sorted(times)


async def measure(
    served: RunningServer, other_url: str, counts: tuple[int, ...], rounds: int, cuts: int
) -> list[Comparison]:
    results = []
    headers = served.headers()
    async with (
        httpx2.AsyncClient(base_url=served.url, headers=headers, timeout=120) as client,
        httpx2.AsyncClient(base_url=other_url, headers=headers, timeout=120) as other,
    ):
        for count in counts:
            await tokens_per_second(client, count, 0, store=True)
            stored, unstored = [], []
            for turn in range(rounds):
                unstored.append(await tokens_per_second(client, count, 1000 * turn, store=False))
                stored.append(await tokens_per_second(client, count, 1000 * turn + 500, store=True))
            rate = statistics.median(stored)
            results.append(Comparison(f"{count} stored streams", rate, statistics.median(unstored), "tokens/s"))
        times = await resume_times(client, other, cuts)
    print(
        f"{cuts} cuts: first event p50 {times[len(times) // 2]:.0f} ms, p99 {times[int(len(times) * 0.99)]:.0f} ms, "
        f"slowest {times[-1]:.0f} ms"
    )
    return results


def main() -> None:
    given = arguments(__doc__ or "")
    rounds, counts, cuts = (3, (1, 8), 20) if given.quick else (7, (1, 8, 16), 200)
    os.environ.setdefault(FOLDER_VARIABLE, str(CHECKOUT / "var" / "compiled"))
    build_kernels()
    limits = {"STOA_KEY_REQUESTS_PER_MINUTE": "100000", "STOA_USER_REQUESTS_PER_MINUTE": "100000"}
    limits |= {"STOA_KEY_TOKENS_PER_MINUTE": "100000000", "STOA_USER_TOKENS_PER_MINUTE": "100000000"}
    with tempfile.TemporaryDirectory() as home:
        models = Path(home) / "models"
        models.mkdir()
        with running_server(Path(home), Path(home) / "run", models, load=[], extra=limits) as served:
            asyncio.run(load(served.host, DESCRIBER, max(counts)))
            process, other_url = start_server(served.environment, Path(home) / "other.log")
            try:
                results = asyncio.run(measure(served, other_url, counts, rounds, cuts))
            finally:
                process.terminate()
                process.wait(45)
    publish(results, given.json)


if __name__ == "__main__":
    main()
