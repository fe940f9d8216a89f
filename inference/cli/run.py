"""`run`: one generation, streamed to the terminal."""

import asyncio
import contextlib
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any

import typer
from django.conf import settings

from inference.cli.failures import fail
from inference.engine import EngineError, FinishReason, GenerationRequest, HostUnavailable, LoadOptions, ModelState
from inference.generation.services import new_id, stream
from inference.protocol import native, openai
from inference.protocol.parameters import parse
from inference.registry.processes import end_host, host, start_host
from inference.registry.services import find_card, load_model, unload_model
from shared.api.errors import ApiError

HOST_STARTS_WITHIN_S = 30.0


def run(
    model: Annotated[str, typer.Argument(help="The id of a model: `stoa models list` shows them.")],
    prompt: Annotated[str, typer.Argument(help="What to say to it; - reads it from the standard input.")],
    system: Annotated[str | None, typer.Option(help="What the model is told before.")] = None,
    raw: Annotated[bool, typer.Option(help="Continue the prompt as it is, without the chat template.")] = False,
    max_tokens: Annotated[int | None, typer.Option(help="At most so many tokens.")] = None,
    temperature: Annotated[float, typer.Option(help="0 is greedy.")] = 0.7,
    top_p: Annotated[float, typer.Option()] = 0.9,
    top_k: Annotated[int, typer.Option()] = 40,
    repeat_penalty: Annotated[float, typer.Option()] = 1.1,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same text.")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="End before this text; may be given again.")] = None,
) -> None:
    """Generate a text and print it as it comes; through the running server's models, or loading one for this run."""
    given = {
        "model": model,
        "max_tokens": max_tokens,
        "temperature": temperature,
        "top_p": top_p,
        "top_k": top_k,
        "repeat_penalty": repeat_penalty,
        "seed": seed,
        "stop": stop,
    }
    text = sys.stdin.read() if prompt == "-" else prompt
    try:
        request = _raw_request(given, text) if raw else _chat_request(given, text, system)
        asyncio.run(_print(model, request))
    except (ApiError, EngineError) as error:
        fail(error)


def _raw_request(given: dict[str, Any], prompt: str) -> GenerationRequest:
    fields = {name: value for name, value in given.items() if value is not None}
    return parse(fields | {"prompt": prompt}, native.InferenceBody).generation_request(new_id("inf_"))


def _chat_request(given: dict[str, Any], prompt: str, system: str | None) -> GenerationRequest:
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": prompt})
    return openai.parse_chat(given | {"messages": messages}).generation_request(new_id("chatcmpl-"))


async def _print(model: str, request: GenerationRequest) -> None:
    await find_card(model)
    async with _loaded(model), await stream(caller=None, model_id=model, request=request) as outputs:
        async for output in outputs:
            sys.stdout.write(output.text)
            sys.stdout.flush()
            if output.finish_reason is FinishReason.ERROR:
                fail(output.error or "The generation failed; try again.")
    sys.stdout.write("\n")


@contextlib.asynccontextmanager
async def _loaded(model: str) -> AsyncIterator[None]:
    """The model is loaded for the time of the block: already, or in the host that runs, or in one of its own."""
    async with _some_host():
        if await _settled_state(model) is ModelState.LOADED:
            yield
            return
        await load_model(model_id=model, options=LoadOptions())
        try:
            yield
        finally:
            await unload_model(model_id=model, force=False)  # others may have come to use it


async def _settled_state(model: str) -> ModelState | None:
    """The state that the host tells of the model once it no longer loads; None where it knows nothing of it."""
    while True:
        state = next((status.state for status in await host().models() if status.model_id == model), None)
        if state is not ModelState.LOADING:
            return state
        await asyncio.sleep(0.1)


@contextlib.asynccontextmanager
async def _some_host() -> AsyncIterator[None]:
    try:
        await host().models()
    except HostUnavailable:
        pass
    else:
        yield
        return
    run_dir = Path(tempfile.mkdtemp(prefix="stoa-"))
    process = start_host(run_dir, quiet=True)
    try:
        settings.RUN_DIR = run_dir
        await _wait_for_host()
        yield
    finally:
        end_host(process)
        shutil.rmtree(run_dir, ignore_errors=True)


async def _wait_for_host() -> None:
    deadline = time.monotonic() + HOST_STARTS_WITHIN_S
    while True:
        try:
            await host().models()
        except HostUnavailable:
            if time.monotonic() > deadline:
                raise
            await asyncio.sleep(0.05)
        else:
            return
