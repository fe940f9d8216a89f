"""Tokens a second through the door, as events and over WebSockets, beside the same requests asked of the engine."""

import asyncio
import statistics
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import httpx2
from websockets.asyncio.client import connect

from inference.engine import GenerationRequest, SamplingParams
from tests.benchmarks._table import Comparison, arguments, publish
from tests.inference.served import ServedStoa, served_stoa
from tests.inference.sockets import address, hear, say, server_process

MODEL = "stoa-describer"
STREAMS, SOCKETS = 64, 8
PROMPT = "The lamp"
Run = Callable[[ServedStoa, int, int], Awaitable[int]]


async def engine_run(stoa: ServedStoa, streams: int, tokens: int) -> int:
    """The engine alone, over its own socket. Answers how many tokens were made."""
    sampling = SamplingParams(max_tokens=tokens, temperature=0.7, ignore_eos=True)

    async def one(number: int) -> int:
        request = GenerationRequest(request_id=f"bench{number}", prompt=PROMPT, sampling=sampling, user=str(number))
        async with await stoa.engine.generate(MODEL, request) as outputs:
            return len([output async for output in outputs])

    return sum(await asyncio.gather(*map(one, range(streams))))


async def events_run(stoa: ServedStoa, streams: int, tokens: int) -> int:
    limits = httpx2.Limits(max_connections=streams)
    async with httpx2.AsyncClient(base_url=stoa.url, headers=stoa.headers(), timeout=600, limits=limits) as client:

        async def one() -> int:
            async with client.stream("POST", "/inference/stream", json=_body(tokens)) as answer:
                return (b"".join([piece async for piece in answer.aiter_raw()])).count(b'"token"')

        return sum(await asyncio.gather(*(one() for _ in range(streams))))


async def sockets_run(stoa: ServedStoa, streams: int, tokens: int) -> int:
    each = streams // SOCKETS

    async def one() -> int:
        async with connect(address(stoa)) as client:
            await say(client, {"type": "auth", "token": stoa.keys["SUPER_ADMIN"]})
            await hear(client)
            await say(client, *(_body(tokens) | {"type": "inference", "id": str(number)} for number in range(each)))
            told, left = 0, each
            while left:
                message = await client.recv(decode=False)
                if message.startswith(b'{"type":"token"'):
                    told += 1
                elif message.startswith(b'{"type":"complete"'):
                    left -= 1
                else:
                    raise RuntimeError(f"The server said {message[:200]!r}.")
            return told

    return sum(await asyncio.gather(*(one() for _ in range(SOCKETS))))


def _body(tokens: int) -> dict[str, object]:
    return {"model": MODEL, "prompt": PROMPT, "max_tokens": tokens, "temperature": 0.7, "ignore_eos": True}


async def measure(stoa: ServedStoa, run: Run, tokens: int) -> tuple[float, float]:
    """Tokens a second, and the web process's microseconds of CPU a token."""
    cpu_before, began = server_process(stoa).cpu_times(), time.perf_counter()
    made = await run(stoa, STREAMS, tokens)
    took, cpu = time.perf_counter() - began, server_process(stoa).cpu_times()
    return made / took, 1e6 * (cpu.user + cpu.system - cpu_before.user - cpu_before.system) / made


async def compare(stoa: ServedStoa, *, rounds: int, tokens: int) -> list[Comparison]:
    """Turn by turn, so that what disturbs the machine disturbs all."""
    runs: dict[str, Run] = {"engine": engine_run, "events": events_run, "sockets": sockets_run}
    rates: dict[str, list[tuple[float, float]]] = {name: [] for name in runs}
    await engine_run(stoa, STREAMS, 5)
    for _ in range(rounds):
        for name, run in runs.items():
            rates[name].append(await measure(stoa, run, tokens))
    await stoa.engine.close()
    rate = {name: statistics.median(one for one, _ in measured) for name, measured in rates.items()}
    cpu = {name: statistics.median(one for _, one in measured) for name, measured in rates.items()}
    return [
        Comparison(f"{STREAMS} event streams beside the engine", rate["events"], rate["engine"], "tokens/s"),
        Comparison(f"{STREAMS} over {SOCKETS} sockets beside the engine", rate["sockets"], rate["engine"], "tokens/s"),
        Comparison("CPU of the web process, sockets beside events", cpu["sockets"], cpu["events"], "us/token"),
    ]


def main() -> None:
    given = arguments(__doc__ or "")
    rounds, tokens = (1, 50) if given.quick else (5, 200)
    with tempfile.TemporaryDirectory(prefix="stoa") as folder:
        home = Path(folder)
        (home / "models").mkdir()
        with served_stoa(home, home / "run", home / "models", load=[MODEL]) as stoa:
            publish(asyncio.run(compare(stoa, rounds=rounds, tokens=tokens)), given.json)


if __name__ == "__main__":
    main()
