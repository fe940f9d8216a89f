"""`batch`: batches of requests from a file, by the operator of this machine."""

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

from inference.batches import answers, services
from inference.batches.intake import ReadBatch, read_batch
from inference.batches.models import Batch
from inference.batches.results import read_piece, wire_result
from inference.cli.failures import FAILED, NOT_FOUND, fail
from inference.cli.listings import AsJson, print_json, print_list
from inference.cli.parameters import Parameters, read_option
from inference.engine import EngineError, InvalidRequest
from inference.openai_batches.checking import BYTE_ORDER_MARK
from inference.registry.services import find_loadable
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError

app = typer.Typer(help="Batches of requests, done by workers.", no_args_is_help=True)

LOOKS_EVERY_S = 0.5
PLACE = re.compile(r"^requests\[(\d+)\][.:] ?")  # of what is wrong, in a body of POST /batch

BatchId = Annotated[str, typer.Argument(metavar="BATCH", help="What `batch submit` printed.")]


@app.command()
def submit(
    file: Annotated[
        Path, typer.Argument(help='Lines of JSON: {"id": "a", "prompt": "..."} and parameters; - is stdin.')
    ],
    model: Annotated[str, typer.Option(help="The id of a model: `stoa models list` shows them.")],
    option: Annotated[
        list[str] | None, typer.Option("--option", "-o", metavar="KEY=VALUE", help="For all; may be given again.")
    ] = None,
    user_id: Annotated[int | None, typer.Option("--user", help="Whose it is.", show_default="a super admin")] = None,
    wait: Annotated[bool, typer.Option(help="Stay until it has ended: status 0 when every request worked.")] = False,
) -> None:
    """Submit a batch and print its id."""
    parameters: Parameters = {}
    try:
        for text in option or []:
            parameters |= read_option(text)
        asked = _read(file, model, parameters)
        asyncio.run(find_loadable(model))
        batch = services.create_batch(
            user=_user(user_id),
            kind=Batch.Kind.NATIVE,
            model_id=asked.model_id,
            parameters=asked.parameters,
            requests=asked.requests,
            now=timezone.now(),
        )
    except (ApiError, EngineError) as error:
        fail(error)
    typer.echo(batch.batch_id)
    if wait:
        _wait(batch)


@app.command()
def status(batch: BatchId, as_json: AsJson = False) -> None:
    """Show how far a batch is."""
    told = msgspec.to_builtins(answers.batch_status(_find(batch)))
    if as_json:
        print_json(told)
    else:
        print_list(("field", "value"), ((name, value) for name, value in told.items()))


@app.command()
def results(batch: BatchId) -> None:
    """Print what came of a batch so far, one JSON a line, in the order of its requests."""
    found, after = _find(batch), -1
    while (piece := read_piece(found, after=after)).requests:
        for request in piece.requests:
            typer.echo(msgspec.json.encode(wire_result(request)).decode())
        after = piece.requests[-1].index


@app.command()
def cancel(batch: BatchId) -> None:
    """End a batch with what it has so far."""
    ended = services.cancel_batch(batch_pk=_find(batch).pk, now=timezone.now())
    typer.echo(f"{ended}: {ended.status}, {ended.completed} of {ended.total} done", err=True)


def _read(file: Path, model: str, parameters: Parameters) -> ReadBatch:
    """The lines as the body of POST /batch. InvalidRequest names the line that is wrong."""
    try:
        text = sys.stdin.buffer.read() if str(file) == "-" else file.read_bytes()
    except OSError as error:
        fail(f"{file} cannot be read: {error.strerror}.", NOT_FOUND)
    text = text.removeprefix(BYTE_ORDER_MARK)
    lines = {number: line for number, line in enumerate(text.splitlines(), 1) if line.strip()}
    for number, line in lines.items():
        try:
            msgspec.json.decode(line, type=msgspec.Raw)
        except msgspec.DecodeError as error:
            raise InvalidRequest(f"line {number} is no JSON: {error}") from None
    head = json.dumps(parameters | {"model": model}).encode()
    try:
        return read_batch(head[:-1] + b', "requests": [' + b",".join(lines.values()) + b"]}")
    except InvalidRequest as error:
        numbers = list(lines)
        named = PLACE.sub(lambda place: f"line {numbers[int(place[1])]}: ", error.message)
        raise InvalidRequest(named) from None


def _user(user_id: int | None) -> User:
    found = User.objects.filter(is_active=True)
    user = (found.filter(pk=user_id) if user_id is not None else found.filter(role=Role.SUPER_ADMIN)).first()
    if user is None:
        fail("There is no such user: make one with `stoa createsuperuser`, or name one with --user.", NOT_FOUND)
    return user


def _find(batch_id: str) -> Batch:
    batch = Batch.objects.filter(batch_id=batch_id).first()
    if batch is None:
        fail(f"There is no batch {batch_id}: the admin lists them.", NOT_FOUND)
    return batch


def _wait(batch: Batch) -> None:
    """With a bar on a terminal. Ctrl-C leaves the batch to its workers."""
    columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task(batch.model_id, total=batch.total)
        while batch.status == Batch.Status.PROCESSING:
            time.sleep(LOOKS_EVERY_S)
            batch.refresh_from_db()
            bar.update(task, completed=batch.completed + batch.failed)
    typer.echo(f"{batch.status}: {batch.completed} completed, {batch.failed} failed", err=True)
    if batch.completed < batch.total:
        raise typer.Exit(FAILED)
