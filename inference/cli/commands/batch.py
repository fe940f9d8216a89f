"""The command group `batch`: of the operator of this machine, or of a user of the server that STOA_URL names."""

import asyncio
import json
import re
import sys
import time
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import msgspec
import typer
from django.utils import timezone
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from inference.batches import services
from inference.batches.models import Batch
from inference.batches.results import read_results, serialize_batch, serialize_result
from inference.batches.submission import ParsedBatch, parse_batch
from inference.cli.errors import EXIT_FAILURE, EXIT_NOT_FOUND, EXIT_USAGE, exit_with_error
from inference.cli.output import JsonOption, print_json, print_table
from inference.cli.parameters import Parameters, parse_option
from inference.cli.server import call_server, is_remote
from inference.engine import EngineError, InvalidRequest
from inference.openai_batches.input_file import BYTE_ORDER_MARK
from inference.protocol.native.batches import BatchState, BatchStatusResponse
from inference.registry.services import find_loadable_model
from shared.accounts.models import User
from shared.accounts.roles import Role
from shared.api.errors import ApiError

app = typer.Typer(help="Manage batches of requests, which workers run.", no_args_is_help=True)

POLL_INTERVAL_SECONDS = 0.5
RESULTS_PER_PAGE = 1000
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
        body, parsed = _read_file(file, model, parameters)
        if not is_remote():
            batch_id = _create_batch(parsed, user_id)
        elif user_id is None:
            batch_id = call_server("POST", "/batch", content=body)["batch_id"]
        else:
            exit_with_error("--user is for batches of this machine: STOA_API_KEY is of the batch's owner.", EXIT_USAGE)
    except (ApiError, EngineError) as error:
        exit_with_error(error)
    typer.echo(batch_id)
    if wait:
        _wait_for_end(batch_id)


@app.command()
def status(batch: BatchId, as_json: JsonOption = False) -> None:
    """Show a batch's status and counts."""
    fields = msgspec.to_builtins(_read_status(batch))
    if as_json:
        print_json(fields)
    else:
        print_table(("field", "value"), fields.items())


@app.command()
def results(batch: BatchId) -> None:
    """Print the results of a batch so far as JSONL, in request order."""
    if is_remote():
        _print_results_of_server(batch)
        return
    found, after = _find_batch(batch), -1
    while (piece := read_results(found, after=after)).requests:
        for request in piece.requests:
            typer.echo(msgspec.json.encode(serialize_result(request)).decode())
        after = piece.requests[-1].index


@app.command()
def cancel(batch: BatchId) -> None:
    """Cancel a batch. Results that exist are kept."""
    if is_remote():
        _call_server("POST", f"/batch/{quote(batch, safe='')}/cancel")
    else:
        services.cancel_batch(batch_pk=_find_batch(batch).pk, now=timezone.now())
    ended = _read_status(batch)
    typer.echo(f"{batch}: {ended.status}, {ended.completed} of {ended.total} completed", err=True)


def _create_batch(parsed: ParsedBatch, user_id: int | None) -> str:
    """Create a batch on this machine and return its id. Raise ApiError."""
    asyncio.run(find_loadable_model(parsed.model_id))
    batch = services.create_batch(
        user=_find_user(user_id),
        kind=Batch.Kind.NATIVE,
        model_id=parsed.model_id,
        parameters=parsed.parameters,
        requests=parsed.requests,
        now=timezone.now(),
    )
    return str(batch.batch_id)


def _call_server(method: str, path: str, **query: object) -> Any:
    """Return the JSON of the server's response, or exit with its error."""
    try:
        return call_server(method, path, query=query)
    except (ApiError, EngineError) as error:
        exit_with_error(error)


def _read_status(batch_id: str) -> BatchStatusResponse:
    if not is_remote():
        return serialize_batch(_find_batch(batch_id))
    return msgspec.convert(_call_server("GET", f"/batch/{quote(batch_id, safe='')}"), BatchStatusResponse)


def _print_results_of_server(batch_id: str) -> None:
    path, after = f"/batch/{quote(batch_id, safe='')}/results", -1
    while (page := _call_server("GET", path, after=after, limit=RESULTS_PER_PAGE))["results"]:
        for result in page["results"]:
            typer.echo(json.dumps(result, ensure_ascii=False, separators=(",", ":")))
        if (after := page["next"]) is None:
            return


def _read_file(file: Path, model: str, parameters: Parameters) -> tuple[bytes, ParsedBatch]:
    """Return a JSONL file as the body of POST /batch, and parsed. Raise InvalidRequest, which names the wrong line."""
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
    body = header[:-1] + b', "requests": [' + b",".join(lines.values()) + b"]}"
    try:
        return body, parse_batch(body)
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


def _wait_for_end(batch_id: str) -> None:
    """Wait with a progress bar, shown only on a terminal. Ctrl-C stops waiting, but not the batch."""
    columns: list[Any] = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=Console(stderr=True), disable=not sys.stderr.isatty()) as bar:
        batch = _read_status(batch_id)
        task = bar.add_task(batch.model, total=batch.total)
        while batch.status == BatchState.PROCESSING:
            time.sleep(POLL_INTERVAL_SECONDS)
            batch = _read_status(batch_id)
            bar.update(task, completed=batch.completed + batch.failed)
    typer.echo(f"{batch.status}: {batch.completed} completed, {batch.failed} failed", err=True)
    if batch.completed < batch.total:
        raise typer.Exit(EXIT_FAILURE)
