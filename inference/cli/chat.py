"""An interactive chat on a terminal. Lines that begin with / are commands."""

import asyncio
import contextlib
import json
from collections.abc import Iterator

import typer
from django.conf import settings

from inference.cli.errors import error_message
from inference.cli.generation import print_generation
from inference.cli.parameters import (
    PARAMETER_NAMES,
    ChatMessages,
    Parameters,
    chat_request,
    check_name,
    parse_value,
)
from inference.cli.temporary_host import loaded_model
from inference.engine import ContextLengthExceeded, EngineError
from shared.api.errors import ApiError

HISTORY_LENGTH = 1000
PROMPT = ">>> "
CONTINUATION_PROMPT = "... "
MULTILINE_QUOTES = '"""'
HELP = f"""\
/set NAME VALUE   set a parameter: /set temperature 0.2
/set system TEXT  set the system message
/show             show the parameters and the system message
/clear            clear the conversation
/verbose          show timings after each response, or stop showing them
/help             show this help
/bye              exit, as Ctrl-D does
Use {MULTILINE_QUOTES} to begin and end a message of several lines. Ctrl-C stops a response."""


class ChatSession:
    """A conversation with a model, and its parameters."""

    def __init__(self, model: str, messages: ChatMessages, parameters: Parameters, *, verbose: bool) -> None:
        self._model = model
        self._messages = messages
        self._parameters = parameters
        self._verbose = verbose

    def run(self) -> None:
        """Chat until the user exits. Raise as `services.load_model` does."""
        with _line_editing(), asyncio.Runner() as runner:
            model = loaded_model(self._model)
            runner.run(model.__aenter__())
            try:
                self._read_lines(runner)
            finally:
                runner.run(model.__aexit__(None, None, None))

    def _read_lines(self, runner: asyncio.Runner) -> None:
        typer.echo("Type /help for the commands.", err=True)
        while True:
            try:
                line = _read_message()
            except EOFError:
                typer.echo()
                return
            except KeyboardInterrupt:
                typer.echo("\nUse Ctrl-D or /bye to exit.", err=True)
                continue
            if line.strip() == "/bye":
                return
            if line.startswith("/"):
                self._run_command(line)
            elif line.strip():
                self._send(runner, line)

    def _send(self, runner: asyncio.Runner, line: str) -> None:
        """Send a message and print the response. A failed or interrupted turn does not change the conversation."""
        messages = [*self._messages, {"role": "user", "content": line}]
        try:
            request = chat_request(self._model, self._parameters, messages)
            response = runner.run(print_generation(self._model, request, verbose=self._verbose))
        except KeyboardInterrupt:
            typer.echo()
        except ContextLengthExceeded as error:
            typer.echo(f"{error_message(error)} Use /clear to clear the conversation.", err=True)
        except (ApiError, EngineError) as error:
            typer.echo(error_message(error), err=True)
        else:
            self._messages = [*messages, {"role": "assistant", "content": response}]

    def _run_command(self, line: str) -> None:
        name, _, rest = line.strip().partition(" ")
        if name == "/set":
            self._set(*rest.strip().partition(" ")[::2])
        elif name == "/show":
            typer.echo(json.dumps(self._parameters | {"system": self._system}, indent=2, ensure_ascii=False))
        elif name == "/clear":
            self._messages = [message for message in self._messages if message["role"] == "system"]
        elif name == "/verbose":
            self._verbose = not self._verbose
        elif name == "/help":
            typer.echo(HELP, err=True)
        else:
            typer.echo(f"Unknown command {name}. Type /help for the commands.", err=True)

    def _set(self, name: str, value: str) -> None:
        value = value.strip()
        if name == "system":
            others = [message for message in self._messages if message["role"] != "system"]
            self._messages = [{"role": "system", "content": value}, *others] if value else others
            return
        if not name:
            typer.echo(f"Usage: /set NAME VALUE. Parameters: system, {', '.join(PARAMETER_NAMES)}.", err=True)
            return
        try:
            parameters = self._parameters | {check_name(name): parse_value(value)}
            chat_request(self._model, parameters, [{"role": "user", "content": ""}])
        except EngineError as error:
            typer.echo(error_message(error), err=True)
        else:
            self._parameters = parameters

    @property
    def _system(self) -> str:
        return next((message["content"] for message in self._messages if message["role"] == "system"), "")


@contextlib.contextmanager
def _line_editing() -> Iterator[None]:
    """Let lines be edited and earlier ones be recalled, also those of earlier chats, where Python has readline."""
    try:
        import readline
    except ImportError:
        yield
        return
    history = settings.VAR_DIR / "chat-history"
    with contextlib.suppress(OSError):
        readline.read_history_file(history)
    readline.set_history_length(HISTORY_LENGTH)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            history.touch(mode=0o600)  # prompts are private
            readline.write_history_file(history)


def _read_message() -> str:
    """Read one line, or several lines between triple quotes."""
    line = input(PROMPT)
    if not line.startswith(MULTILINE_QUOTES):
        return line
    lines = [line.removeprefix(MULTILINE_QUOTES)]
    while not lines[-1].endswith(MULTILINE_QUOTES):
        lines.append(input(CONTINUATION_PROMPT))
    return "\n".join(lines).removesuffix(MULTILINE_QUOTES)
