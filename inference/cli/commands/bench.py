"""The command `bench`."""

import asyncio
import random
import string
import time
from statistics import median
from typing import Annotated, Any

import typer

from inference.cli.errors import EXIT_USAGE, exit_with_error
from inference.cli.generation import GenerationTiming, record_timing
from inference.cli.output import JsonOption, print_json, print_table
from inference.cli.parameters import raw_request
from inference.cli.temporary_host import loaded_model
from inference.engine import EngineError, GenerationRequest
from inference.generation.services import start_stream
from shared.api.errors import ApiError

RUN_COUNT = 3
_WORD_LENGTH = 5


def bench(
    model: Annotated[str, typer.Argument(help="The model's id, as `stoa models list` shows it.")],
    concurrency: Annotated[
        str, typer.Option(help="Numbers of concurrent requests, measured one after the other.")
    ] = "1,4,16",
    prompt_words: Annotated[int, typer.Option(min=1, help="Random words per prompt.")] = 64,
    max_tokens: Annotated[int, typer.Option(min=2, help="Tokens per response.")] = 128,
    as_json: JsonOption = False,
) -> None:
    """Measure a model's speed: the median of three runs after a warm-up. All prompts differ, so caches do not help.

    Other requests to the same server make the figures worse.
    """
    levels = _parse_concurrency(concurrency)
    try:
        results = asyncio.run(_measure(model, levels, prompt_words, max_tokens))
    except (ApiError, EngineError) as error:
        exit_with_error(error)
    if as_json:
        print_json(results)
        return
    columns = ("concurrency", "tokens/s", "TTFT p50 ms", "TTFT max ms", "inter-token p50 ms", "prompt tokens")
    print_table(columns, (list(result.values()) for result in results))


def _parse_concurrency(text: str) -> list[int]:
    try:
        levels = [int(part) for part in text.split(",")]
    except ValueError:
        levels = []
    if not levels or min(levels) < 1:
        exit_with_error(f"--concurrency must be numbers from 1 with commas, as in 1,4,16, not {text}.", EXIT_USAGE)
    return levels


async def _measure(model: str, levels: list[int], prompt_words: int, max_tokens: int) -> list[dict[str, Any]]:
    generator = random.Random(0)  # noqa: S311 words, not secrets

    def request() -> GenerationRequest:
        words = ("".join(generator.choices(string.ascii_lowercase, k=_WORD_LENGTH)) for _ in range(prompt_words))
        parameters = {"max_tokens": max_tokens, "min_tokens": max_tokens, "temperature": 0, "ignore_eos": True}
        return raw_request(model, parameters, " ".join(words))

    async with loaded_model(model):
        await _run_concurrently(model, [request()])
        runs = {
            level: [await _run_concurrently(model, [request() for _ in range(level)]) for _ in range(RUN_COUNT)]
            for level in levels
        }
    return [_summarize(level, runs[level]) for level in levels]


async def _run_concurrently(model: str, requests: list[GenerationRequest]) -> tuple[float, list[GenerationTiming]]:
    """Return the seconds for all requests together, and the timing of each."""
    started_at = time.monotonic()
    timings = await asyncio.gather(*(_generate(model, request) for request in requests))
    return time.monotonic() - started_at, timings


async def _generate(model: str, request: GenerationRequest) -> GenerationTiming:
    timing = GenerationTiming()
    async with await start_stream(caller=None, model_id=model, request=request) as outputs:
        async for _ in record_timing(outputs, timing):
            pass
    return timing


def _summarize(level: int, runs: list[tuple[float, list[GenerationTiming]]]) -> dict[str, Any]:
    timings = [timing for _, run_timings in runs for timing in run_timings]
    first_token_ms = [timing.time_to_first_token * 1000 for timing in timings]
    tokens_per_run = sum(timing.usage.completion_tokens for timing in timings) / len(runs)
    return {
        "concurrency": level,
        "tokens_per_second": round(tokens_per_run / median(seconds for seconds, _ in runs), 1),
        "first_token_p50_ms": round(median(first_token_ms), 1),
        "first_token_max_ms": round(max(first_token_ms), 1),
        "between_tokens_p50_ms": round(median(timing.inter_token_latency * 1000 for timing in timings), 2),
        "prompt_tokens": round(median(timing.usage.prompt_tokens for timing in timings)),
    }
