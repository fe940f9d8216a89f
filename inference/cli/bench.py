"""`bench`: how fast a model answers on this machine, at several numbers of requests at once."""

import asyncio
import random
import string
import time
from statistics import median
from typing import Annotated, Any

import typer

from inference.cli.failures import WRONGLY_CALLED, fail
from inference.cli.generating import Timing, timed
from inference.cli.hosts import loaded
from inference.cli.listings import AsJson, print_json, print_list
from inference.cli.parameters import raw_request
from inference.engine import EngineError, GenerationRequest
from inference.generation.services import stream
from shared.api.errors import ApiError

ROUNDS = 3
_WORD_LETTERS = 5


def bench(
    model: Annotated[str, typer.Argument(help="The id of a model: `stoa models list` shows them.")],
    concurrency: Annotated[str, typer.Option(help="How many requests at once, one after the other.")] = "1,4,16",
    prompt_words: Annotated[int, typer.Option(min=1, help="Each prompt has so many random words.")] = 64,
    max_tokens: Annotated[int, typer.Option(min=2, help="Each answer has so many tokens.")] = 128,
    as_json: AsJson = False,
) -> None:
    """Measure a model's speed: median of three rounds after one to warm up. Prompts differ, so no cache helps.

    A server that works for others meanwhile tells less than the machine can do.
    """
    levels = _levels(concurrency)
    try:
        measured = asyncio.run(_measure(model, levels, prompt_words, max_tokens))
    except (ApiError, EngineError) as error:
        fail(error)
    if as_json:
        print_json(measured)
        return
    columns = ("at once", "tokens/s", "first token p50 ms", "first token max ms", "between tokens ms", "prompt tokens")
    print_list(columns, (list(one.values()) for one in measured))


def _levels(text: str) -> list[int]:
    try:
        levels = [int(part) for part in text.split(",")]
    except ValueError:
        levels = []
    if not levels or min(levels) < 1:
        fail(f"--concurrency {text} is wrong: write numbers from 1, as in 1,4,16.", WRONGLY_CALLED)
    return levels


async def _measure(model: str, levels: list[int], prompt_words: int, max_tokens: int) -> list[dict[str, Any]]:
    chance = random.Random(0)  # noqa: S311 words, not secrets

    def request() -> GenerationRequest:
        words = ("".join(chance.choices(string.ascii_lowercase, k=_WORD_LETTERS)) for _ in range(prompt_words))
        parameters = {"max_tokens": max_tokens, "min_tokens": max_tokens, "temperature": 0, "ignore_eos": True}
        return raw_request(model, parameters, " ".join(words))

    async with loaded(model):
        await _round(model, [request()])
        rounds = {
            level: [await _round(model, [request() for _ in range(level)]) for _ in range(ROUNDS)] for level in levels
        }
    return [_told(level, rounds[level]) for level in levels]


async def _round(model: str, requests: list[GenerationRequest]) -> tuple[float, list[Timing]]:
    """Seconds for all of them together, and each one's times."""
    began = time.monotonic()
    timings = await asyncio.gather(*(_one(model, request) for request in requests))
    return time.monotonic() - began, timings


async def _one(model: str, request: GenerationRequest) -> Timing:
    timing = Timing()
    async with await stream(caller=None, model_id=model, request=request) as outputs:
        async for _ in timed(outputs, timing):
            pass
    return timing


def _told(level: int, rounds: list[tuple[float, list[Timing]]]) -> dict[str, Any]:
    timings = [timing for _, together in rounds for timing in together]
    to_first = [timing.to_first * 1000 for timing in timings]
    written = sum(timing.usage.completion_tokens for timing in timings) / len(rounds)
    return {
        "concurrency": level,
        "tokens_per_second": round(written / median(took for took, _ in rounds), 1),
        "first_token_p50_ms": round(median(to_first), 1),
        "first_token_max_ms": round(max(to_first), 1),
        "between_tokens_p50_ms": round(median(timing.between * 1000 for timing in timings), 2),
        "prompt_tokens": round(median(timing.usage.prompt_tokens for timing in timings)),
    }
