"""The command group `batch`, for the operator of this machine."""

import asyncio
import json
import re
import sys
import time
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer
from django.utils import timezone
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from inference.batches import services
from inference.batches.models import Batch
from inference.batches.results import read_results, serialize_batch, serialize_result
from inference.batches.submission import ParsedBatch, parse_batch
from inference.cli.errors import EXIT_FAILURE, EXIT_NOT_FOUND, exit_with_error
from inference.cli.output import JsonOption, print_json, print_table
from inference.cli.parameters import Parameters, parse_option
from inference.engine import EngineError, InvalidRequest
from inference.openai_batches.input_file import BYTE_ORDER_MARK
from inference.registry.services import find_loadable_model
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError

app = typer.Typer(help="Manage batches of requests, which workers run.", no_args_is_help=True)

POLL_INTERVAL_SECONDS = 0.5
_REQUEST_INDEX = re.compile(r"^requests\[(\d+)\][.:] ?")  # at the start of an error about a body of POST /batch

BatchId = Annotated[str, typer.Argument(metavar="BATCH", help="The batch's id, as `stoa batch submit` prints it.")]


@app.command()
def submit(
    file: Annotated[
        Path,
        typer.Argument(help='A JSONL file of requests: {"id": "a", "prompt": "..."} and parameters. - reads stdin.'),
    ],
    model: Annotated[str, typer.Option(help="The model's id, as `stoa models list` shows it.")],
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-o", metavar="KEY=VALUE", help="A parameter of all requests. May be repeated."),
    ] = None,
    user_id: Annotated[
        int | None, typer.Option("--user", help="The batch's owner.", show_default="a super admin")
    ] = None,
    wait: Annotated[
        bool, typer.Option(help="Wait for the batch's end, and exit with 0 only if all requests succeeded.")
    ] = False,
) -> None:
    """Submit a batch and print its id."""
    parameters: Parameters = {}
    try:
        for text in option or []:
            parameters |= parse_option(text)
        parsed = _read_file(file, model, parameters)
        asyncio.run(find_loadable_model(model))
        batch = services.create_batch(
            user=_find_user(user_id),
            kind=Batch.Kind.NATIVE,
            model_id=parsed.model_id,
            parameters=parsed.parameters,
            requests=parsed.requests,
            now=timezone.now(),
        )
    except (ApiError, EngineError) as error:
        exit_with_error(error)
    typer.echo(batch.batch_id)
    if wait:
        _wait_for_end(batch)


@app.command()
def status(batch: BatchId, as_json: JsonOption = False) -> None:
    """Show a batch's status and counts."""
    fields = msgspec.to_builtins(serialize_batch(_find_batch(batch)))
    if as_json:
        print_json(fields)
    else:
        print_table(("field", "value"), fields.items())


@app.command()
def results(batch: BatchId) -> None:
    """Print the results of a batch so far as JSONL, in request order."""
    found, after = _find_batch(batch), -1
    while (piece := read_results(found, after=after)).requests:
        for request in piece.requests:
            typer.echo(msgspec.json.encode(serialize_result(request)).decode())
        after = piece.requests[-1].index


@app.command()
def cancel(batch: BatchId) -> None:
    """Cancel a batch. Results that exist are kept."""
    ended = services.cancel_batch(batch_pk=_find_batch(batch).pk, now=timezone.now())
    typer.echo(f"{ended}: {ended.status}, {ended.completed} of {ended.total} completed", err=True)


def _read_file(file: Path, model: str, parameters: Parameters) -> ParsedBatch:
    """Parse a JSONL file as the body of POST /batch. Raise InvalidRequest, which names the wrong line."""
    try:
        text = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        exit_with_error(f"{file} cannot be read: {error.strerror}.", EXIT_NOT_FOUND)
    text = text.removeprefix(BYTE_ORDER_MARK)
    lines = {number: line for number, line in enumerate(text.splitlines(), 1) if line.strip()}
    for number, line in lines.items():
        try:
            msgspec.json.decode(line, type=msgspec.Raw)
        except msgspec.DecodeError as error:
            raise InvalidRequest(f"line {number} is not JSON: {error}") from None
    header = json.dumps(parameters | {"model": model}).encode()
    try:
        return parse_batch(header[:-1] + b', "requests": [' + b",".join(lines.values()) + b"]}")
    except InvalidRequest as error:
        numbers = list(lines)
        message = _REQUEST_INDEX.sub(lambda index: f"line {numbers[int(index[1])]}: ", error.message)
        raise InvalidRequest(message) from None


def _find_user(user_id: int | None) -> User:
    users = User.objects.filter(is_active=True)
    user = (users.filter(pk=user_id) if user_id is not None else users.filter(role=Role.SUPER_ADMIN)).first()
    if user is None:
        message = "There is no such user: create one with `stoa createsuperuser`, or choose another with --user."
        exit_with_error(message, EXIT_NOT_FOUND)
    return user


def _find_batch(batch_id: str) -> Batch:
    batch = Batch.objects.filter(batch_id=batch_id).first()
    if batch is None:
        exit_with_error(f"There is no batch {batch_id}: the admin lists the batches.", EXIT_NOT_FOUND)
    return batch


def _wait_for_end(batch: Batch) -> None:
    """Wait with a progress bar, shown only on a terminal. Ctrl-C stops waiting, but not the batch."""
    columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(batch.model_id, total=batch.total)
        while batch.status == Batch.Status.PROCESSING:
            time.sleep(POLL_INTERVAL_SECONDS)
            batch.refresh_from_db()
            bar.update(task, completed=batch.completed + batch.failed)
    typer.echo(f"{batch.status}: {batch.completed} completed, {batch.failed} failed", err=True)
    if batch.completed < batch.total:
        raise typer.Exit(EXIT_FAILURE)
