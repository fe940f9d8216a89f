"""`run`: one generation, or a chat, streamed to the terminal."""

import asyncio
import sys
from typing import Annotated

import typer

from inference.cli.chat import Chat
from inference.cli.failures import WRONGLY_CALLED, fail
from inference.cli.generating import print_generation
from inference.cli.hosts import loaded
from inference.cli.parameters import Messages, Parameters, chat_request, raw_request, read_option
from inference.engine import EngineError, GenerationRequest
from shared.api.errors import ApiError


def run(
    model: Annotated[str, typer.Argument(help="The id of a model: `stoa models list` shows them.")],
    prompt: Annotated[
        str | None,
        typer.Argument(help="What to say; without it, or with -, the standard input, or a chat on a terminal."),
    ] = None,
    system: Annotated[str | None, typer.Option("--system", "-s", help="What the model is told before.")] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", metavar="KEY=VALUE", help="Any parameter; may be given again.")
    ] = None,
    raw: Annotated[bool, typer.Option(help="Continue the prompt as it is, without the chat template.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Tell how long it took.")] = False,
    max_tokens: Annotated[int | None, typer.Option(help="At most so many tokens.")] = None,
    temperature: Annotated[float | None, typer.Option(help="0 is greedy.", show_default="0.7")] = None,
    top_p: Annotated[float | None, typer.Option(show_default="0.9")] = None,
    top_k: Annotated[int | None, typer.Option(show_default="40")] = None,
    repeat_penalty: Annotated[float | None, typer.Option(show_default="1.1")] = None,
    seed: Annotated[int | None, typer.Option(help="The same seed gives the same text.")] = None,
    stop: Annotated[list[str] | None, typer.Option(help="End before this text; may be given again.")] = None,
) -> None:
    """Generate a text and print it as it comes; through the running server's models, or loading one for this run."""
    flags = {
        "max_tokens": max_tokens,
        "temperature": temperature,
        "top_p": top_p,
        "top_k": top_k,
        "repeat_penalty": repeat_penalty,
        "seed": seed,
        "stop": stop or None,
    }
    try:
        parameters: Parameters = {name: value for name, value in flags.items() if value is not None}
        for text in option or []:
            parameters |= read_option(text)
        messages: Messages = [{"role": "system", "content": system}] if system else []
        if prompt is None and sys.stdin.isatty():
            if raw:
                fail("A chat goes through the chat template: with --raw, give a prompt.", WRONGLY_CALLED)
            Chat(model, messages, parameters, verbose=verbose).run()
            return
        text = prompt if prompt is not None and prompt != "-" else _read_input()
        said = [*messages, {"role": "user", "content": text}]
        request = raw_request(model, parameters, text) if raw else chat_request(model, parameters, said)
        asyncio.run(_once(model, request, verbose))
    except (ApiError, EngineError) as error:
        fail(error)


def _read_input() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        fail(f"The input is no text in {error.encoding} from byte {error.start} on.", WRONGLY_CALLED)


async def _once(model: str, request: GenerationRequest, verbose: bool) -> None:
    async with loaded(model):
        await print_generation(model, request, verbose=verbose)
