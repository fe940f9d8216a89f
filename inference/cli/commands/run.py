"""The command `run`."""

import asyncio
import sys
from typing import Annotated, Any

import typer

from inference.cli.chat import ChatSession
from inference.cli.errors import EXIT_USAGE, exit_with_error
from inference.cli.generation import print_generation
from inference.cli.parameters import DEFAULTS, ChatMessages, Parameters, chat_request, parse_option, raw_request
from inference.cli.temporary_host import loaded_model
from inference.engine import SAMPLING_PARAMETERS, EngineError, GenerationRequest
from shared.api.errors import ApiError


def _parameter_option(name: str) -> Any:
    """Return the option of a sampling parameter: its declared texts and bounds, and its default on the command line."""
    parameter, default = SAMPLING_PARAMETERS[name], DEFAULTS.get(name)
    return typer.Option(
        help=f"{parameter.description} Must be {parameter.expected}.",
        show_default=False if default is None else str(default),
    )


def run(
    model: Annotated[str, typer.Argument(help="The model's id, as `stoa models list` shows it.")],
    prompt: Annotated[
        str | None,
        typer.Argument(help="The prompt. Without it, or with -, read from standard input; chat on a terminal."),
    ] = None,
    system: Annotated[str | None, typer.Option("--system", "-s", help="The system message.")] = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", metavar="KEY=VALUE", help="Any generation parameter. May be repeated."),
    ] = None,
    raw: Annotated[bool, typer.Option(help="Continue the prompt without the chat template.")] = False,
    verbose: Annotated[bool, typer.Option("--verbose", help="Show timings for the response.")] = False,
    max_tokens: Annotated[int | None, _parameter_option("max_tokens")] = None,
    temperature: Annotated[float | None, _parameter_option("temperature")] = None,
    top_p: Annotated[float | None, _parameter_option("top_p")] = None,
    top_k: Annotated[int | None, _parameter_option("top_k")] = None,
    repeat_penalty: Annotated[float | None, _parameter_option("repeat_penalty")] = None,
    seed: Annotated[int | None, _parameter_option("seed")] = None,
    stop: Annotated[list[str] | None, _parameter_option("stop")] = None,
) -> None:
    """Run a model: print the response to a prompt, or chat. Load the model for this run if it is not loaded."""
    options = {
        "max_tokens": max_tokens,
        "temperature": temperature,
        "top_p": top_p,
        "top_k": top_k,
        "repeat_penalty": repeat_penalty,
        "seed": seed,
        "stop": stop or None,
    }
    try:
        parameters: Parameters = {name: value for name, value in options.items() if value is not None}
        for text in option or []:
            parameters |= parse_option(text)
        messages: ChatMessages = [{"role": "system", "content": system}] if system else []
        if prompt is None and sys.stdin.isatty():
            if raw:
                exit_with_error("--raw needs a prompt: a chat always uses the chat template.", EXIT_USAGE)
            ChatSession(model, messages, parameters, verbose=verbose).run()
            return
        text = prompt if prompt is not None and prompt != "-" else _read_stdin()
        messages = [*messages, {"role": "user", "content": text}]
        request = raw_request(model, parameters, text) if raw else chat_request(model, parameters, messages)
        asyncio.run(_generate(model, request, verbose))
    except (ApiError, EngineError) as error:
        exit_with_error(error)


def _read_stdin() -> str:
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        exit_with_error(f"The input must be {error.encoding} text: byte {error.start} is invalid.", EXIT_USAGE)


async def _generate(model: str, request: GenerationRequest, verbose: bool) -> None:
    async with loaded_model(model):
        await print_generation(model, request, verbose=verbose)
