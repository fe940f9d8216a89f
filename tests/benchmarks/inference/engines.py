"""Engines with the same random weights in float32: Stoa's, vLLM's CPU build, llama.cpp and transformers' batching.

Engines of others are those that `stoa engines install` has installed; what is missing is left out. Each is asked
directly and through Stoa's API by the same client: the baseline of "through Stoa" rows is the engine asked directly.
"""

import asyncio
import contextlib
import itertools
import os
import statistics
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx2

from inference.engine import EngineClient, GenerationRequest, LoadOptions, SamplingParams
from inference.engine.external import ENGINE_KINDS
from inference.engine.external.installation import installed_folder, is_installed
from inference.engine.external.server import EngineServer, ServerPlan
from inference.engine.models.kernel_build import FOLDER_VARIABLE, build_kernels
from tests.benchmarks._table import Comparison, arguments, publish
from tests.benchmarks.inference._engines import TransformersBaseline, configurations, prompts, save_random
from tests.inference.engine.gguf_files import save_gguf
from tests.inference.engine.tiny_models import byte_tokenizer
from tests.inference.running_server import RunningServer, running_server

CHECKOUT = Path(__file__).resolve().parents[3]
PROMPT, TOKENS, CONTEXT = 32, 128, 256
VOCABULARY = 100
COUNTS = (1, 16, 64)


@dataclass(frozen=True)
class Timing:
    tokens_per_second: float
    first_token_ms: float


class StreamClient(ABC):
    """A client that sends concurrent requests for completions."""

    async def run(self, count: int, turn: int) -> Timing:
        """Return the timing of concurrent streams. Each turn has other prompts, so that no prefix is cached."""
        texts = ["".join(chr(33 + (token + turn) % 90) for token in ids) for ids in prompts(count, PROMPT, VOCABULARY)]
        began = time.perf_counter()
        first = await asyncio.gather(*map(self._stream, texts))
        took = time.perf_counter() - began
        return Timing(count * TOKENS / took, statistics.median(first) * 1000)

    @abstractmethod
    async def _stream(self, text: str) -> float:
        """Read a stream to its end and return the seconds to its first token."""


class EngineStreamClient(StreamClient):
    """A client of a model host, without a web process before it."""

    def __init__(self, engine: EngineClient, model: str) -> None:
        self._engine, self._model, self._ids = engine, model, itertools.count()

    async def _stream(self, text: str) -> float:
        sampling = SamplingParams(max_tokens=TOKENS, temperature=0, ignore_eos=True)
        request = GenerationRequest(request_id=f"bench-{next(self._ids)}", prompt=text, sampling=sampling)
        began, first = time.perf_counter(), 0.0
        async for output in await self._engine.generate(self._model, request):
            first = first or time.perf_counter() - began
            if output.finish_reason and output.finish_reason != "length":
                raise SystemExit(f"{self._model}: {output}")
        return first


class CompletionsClient(StreamClient):
    """A client of an OpenAI-compatible server, which asks it for completions."""

    def __init__(self, client: httpx2.AsyncClient, model: str) -> None:
        self._client, self._model = client, model

    async def _stream(self, text: str) -> float:
        body = {"model": self._model, "prompt": text, "max_tokens": TOKENS, "temperature": 0, "ignore_eos": True}
        began, first, tail = time.perf_counter(), 0.0, b""
        async with self._client.stream("POST", "/v1/completions", json=body | {"stream": True}) as response:
            if response.status_code != 200:
                raise SystemExit(f"{self._model}: {(await response.aread())[:300]!r}")
            async for piece in response.aiter_raw():
                first = first or time.perf_counter() - began
                tail = (tail + piece)[-300:]
        if b"[DONE]" not in tail:
            raise SystemExit(f"{self._model}: a stream broke off: {tail!r}")
        return first


@contextlib.asynccontextmanager
async def direct(kind: str, folder: Path, model: Path, socket: Path) -> AsyncIterator[CompletionsClient]:
    """Run an engine's server as a model process does, without Stoa before it."""
    plan = ServerPlan(
        kind=ENGINE_KINDS[kind],
        folder=folder,
        model=model,
        socket=socket,
        options=options(kind),
        context_size=CONTEXT,
        weight_bytes=0,
        cache_bytes=2**30,
        gpu_share=0.0,
    )
    server = EngineServer(plan)
    try:
        await server.wait_ready()
        yield CompletionsClient(server.client, "model")
    finally:
        await server.client.aclose()
        server.close()


def options(kind: str) -> LoadOptions:
    dtype = "auto" if kind == "llama.cpp" else "float32"  # llama.cpp takes the file's
    return LoadOptions(engine=kind, context_size=CONTEXT, max_sequences=max(COUNTS), dtype=dtype)


async def measure(asked: StreamClient, rounds: int, counts: tuple[int, ...]) -> dict[int, Timing]:
    """Return the medians by number of requests."""
    await asked.run(1, 0)
    timings = {}
    for count in counts:
        found = [await asked.run(count, turn) for turn in range(1, rounds + 1)]
        timings[count] = Timing(
            statistics.median(one.tokens_per_second for one in found),
            statistics.median(one.first_token_ms for one in found),
        )
    return timings


async def through_stoa(
    served: RunningServer, kind: str, name: str, model: Path, rounds: int, counts: tuple[int, ...]
) -> dict[int, Timing]:
    began = time.perf_counter()
    await served.host.load(name, model, options(kind))
    print(f"{kind}: loaded in {time.perf_counter() - began:.1f} s")
    headers = {"Authorization": f"Bearer {served.keys['SUPER_ADMIN']}"}
    limits = httpx2.Limits(max_connections=None)
    async with httpx2.AsyncClient(base_url=served.url, headers=headers, timeout=600, limits=limits) as client:
        timings = await measure(CompletionsClient(client, name), rounds, counts)
    await served.host.unload(name)
    return timings


def compare(
    served: RunningServer, models: dict[str, Path], rounds: int, counts: tuple[int, ...]
) -> Iterator[Comparison]:
    """Yield the rows of all engines. The baseline of their speed is Stoa's engine."""
    engines = Path(os.environ["STOA_ENGINES_DIR"])

    async def ask_engine() -> dict[int, Timing]:
        await served.host.load("model", models["vllm"], options("stoa"))
        timings = await measure(EngineStreamClient(served.engine, "model"), rounds, counts)
        await served.engine.close()
        await served.host.unload("model")
        return timings

    asked = asyncio.run(ask_engine())
    ours = asyncio.run(through_stoa(served, "stoa", "model", models["vllm"], rounds, counts))
    yield from fronts("stoa", ours, asked)
    batching = TransformersBaseline(models["vllm"])
    for count in counts:
        speed = batching.run_continuously(prompts(count, PROMPT, VOCABULARY), TOKENS)
        yield Comparison(f"stoa over transformers, {count}", ours[count].tokens_per_second, speed, "tokens/s")
    for kind in ("vllm", "llama.cpp"):
        if not is_installed(engines, ENGINE_KINDS[kind]):
            print(f"{kind} is left out: `stoa engines install {kind}` installs it.")
            continue
        folder, model = installed_folder(engines, ENGINE_KINDS[kind]).absolute(), models[kind]

        async def alone(kind: str = kind, folder: Path = folder, model: Path = model) -> dict[int, Timing]:
            with tempfile.TemporaryDirectory() as run_dir:
                async with direct(kind, folder, model, Path(run_dir) / "engine.sock") as asked:
                    return await measure(asked, rounds, counts)

        plain = asyncio.run(alone())
        fronted = asyncio.run(through_stoa(served, kind, model.name, model, rounds, counts))
        for count in counts:
            mine, theirs = ours[count].tokens_per_second, plain[count].tokens_per_second
            yield Comparison(f"stoa over {kind}, {count}", mine, theirs, "tokens/s")
        yield from fronts(kind, fronted, plain)


def fronts(kind: str, fronted: dict[int, Timing], plain: dict[int, Timing]) -> Iterator[Comparison]:
    """Yield the rows of an engine through the API. The baseline is the engine asked directly."""
    for count, timing in fronted.items():
        baseline = plain[count].tokens_per_second
        yield Comparison(f"{kind} through Stoa, {count}", timing.tokens_per_second, baseline, "tokens/s")
    for count, timing in fronted.items():
        yield Comparison(
            f"{kind} through Stoa, {count}, first token", timing.first_token_ms, plain[count].first_token_ms, "ms"
        )


def give_every_token_a_text(model: Path) -> None:
    """Add words to the tokenizer of random weights. Of tokens without a text Stoa streams nothing, and vLLM events."""
    tokenizer = byte_tokenizer()
    tokenizer.add_tokens([f"w{number}" for number in range(len(tokenizer), configurations()["small"].vocab_size)])
    tokenizer.save_pretrained(model)


def main() -> None:
    given = arguments(__doc__ or "")
    os.environ.setdefault("STOA_ENGINES_DIR", str(CHECKOUT / "var" / "engines"))
    os.environ.setdefault(FOLDER_VARIABLE, str(CHECKOUT / "var" / "compiled"))
    build_kernels()
    rounds, counts = (1, (1, 16)) if given.quick else (3, COUNTS)
    with tempfile.TemporaryDirectory() as home:
        folder = Path(home) / "models"
        model = save_random(folder / "model", configurations()["small"])
        models = {"vllm": model, "llama.cpp": save_gguf(model, folder / "model.gguf", "F32")}
        give_every_token_a_text(model)  # those of the GGUF file have one
        with running_server(
            Path(home), Path(home) / "run", folder, load=[], extra={"STOA_ENGINES_DIR": os.environ["STOA_ENGINES_DIR"]}
        ) as served:
            publish(list(compare(served, models, rounds, counts)), given.json)


if __name__ == "__main__":
    main()
