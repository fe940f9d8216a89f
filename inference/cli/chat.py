"""A chat on a terminal: what was said is kept and sent along; lines that begin with / are commands."""

import asyncio
import contextlib
import json

import typer

from inference.cli.failures import message_of
from inference.cli.generating import print_generation
from inference.cli.hosts import loaded
from inference.cli.parameters import NAMES, Messages, Parameters, chat_request, check_name, read_value
from inference.engine import ContextLengthExceeded, EngineError
from shared.api.errors import ApiError

PROMPT = ">>> "
MORE = "... "
QUOTES = '"""'
HELP = f"""\
/set NAME VALUE   set a parameter, as in /set temperature 0.2
/set system TEXT  what the model is told before
/show             the parameters, and what the model is told before
/clear            forget what was said
/verbose          tell how long each answer took, or stop telling
/help             this
/bye              end, as Ctrl-D does
{QUOTES} begins and ends a text of several lines. Ctrl-C stops an answer."""


class Chat:
    """What was said, and with which parameters. `run` returns when the user ends it."""

    def __init__(self, model: str, messages: Messages, parameters: Parameters, *, verbose: bool) -> None:
        self._model = model
        self._messages = messages
        self._parameters = parameters
        self._verbose = verbose

    def run(self) -> None:
        """Raises as `services.load_model` does."""
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  editing and the history of lines, where Python has it
        with asyncio.Runner() as runner:
            model = loaded(self._model)
            runner.run(model.__aenter__())
            try:
                self._talk(runner)
            finally:
                runner.run(model.__aexit__(None, None, None))

    def _talk(self, runner: asyncio.Runner) -> None:
        typer.echo("/help shows the commands.", err=True)
        while True:
            try:
                line = _read()
            except EOFError:
                typer.echo()
                return
            except KeyboardInterrupt:
                typer.echo("\nCtrl-D or /bye ends.", err=True)
                continue
            if line.strip() == "/bye":
                return
            if line.startswith("/"):
                self._command(line)
            elif line.strip():
                self._say(runner, line)

    def _say(self, runner: asyncio.Runner, line: str) -> None:
        """One turn; one that failed, or was stopped, is as if it had not been."""
        messages = [*self._messages, {"role": "user", "content": line}]
        try:
            request = chat_request(self._model, self._parameters, messages)
            answer = runner.run(print_generation(self._model, request, verbose=self._verbose))
        except KeyboardInterrupt:
            typer.echo()
        except ContextLengthExceeded as error:
            typer.echo(f"{message_of(error)} /clear forgets what was said.", err=True)
        except (ApiError, EngineError) as error:
            typer.echo(message_of(error), err=True)
        else:
            self._messages = [*messages, {"role": "assistant", "content": answer}]

    def _command(self, line: str) -> None:
        name, _, rest = line.strip().partition(" ")
        if name == "/set":
            self._set(*rest.strip().partition(" ")[::2])
        elif name == "/show":
            typer.echo(json.dumps(self._parameters | {"system": self._system}, indent=2, ensure_ascii=False))
        elif name == "/clear":
            self._messages = [message for message in self._messages if message["role"] == "system"]
        elif name == "/verbose":
            self._verbose = not self._verbose
        else:
            typer.echo(HELP if name == "/help" else f"There is no {name}: /help shows the commands.", err=True)

    def _set(self, name: str, value: str) -> None:
        value = value.strip()
        if name == "system":
            others = [message for message in self._messages if message["role"] != "system"]
            self._messages = [{"role": "system", "content": value}, *others] if value else others
            return
        try:
            changed = self._parameters | {check_name(name): read_value(value)}
            chat_request(self._model, changed, [{"role": "user", "content": ""}])
        except EngineError as error:
            typer.echo(message_of(error) if name else f"/set NAME VALUE. There are: {', '.join(NAMES)}.", err=True)
        else:
            self._parameters = changed

    @property
    def _system(self) -> str:
        return next((message["content"] for message in self._messages if message["role"] == "system"), "")


def _read() -> str:
    """A line, or several between triple quotes."""
    line = input(PROMPT)
    if not line.startswith(QUOTES):
        return line
    lines = [line.removeprefix(QUOTES)]
    while not lines[-1].endswith(QUOTES):
        lines.append(input(MORE))
    return "\n".join(lines).removesuffix(QUOTES)
