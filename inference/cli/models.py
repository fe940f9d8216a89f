"""`models`: which models there are, and how they come and go."""

import asyncio
import sys
from typing import Annotated, Any, Self

import msgspec
import typer
from django.utils import timezone
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from inference.cli.failures import WRONGLY_CALLED, fail
from inference.cli.listings import AsJson, print_json, print_list, size
from inference.downloads.services import download_model, remove_model
from inference.engine import EngineError, HostUnavailable, LoadReport
from inference.protocol import native
from inference.protocol.parameters import parse
from inference.registry import listing, services
from inference.registry.catalog import model_not_found, read_catalog
from shared.api.errors import ApiError

app = typer.Typer(help="The models of this machine.", no_args_is_help=True)

ModelId = Annotated[str, typer.Argument(metavar="MODEL", help="The id of a model: `stoa models list` shows them.")]


@app.command("list")
def list_(as_json: Annotated[bool, typer.Option("--json", help="As GET /models answers.")] = False) -> None:
    """List every model, loaded or not."""
    found = asyncio.run(listing.list_models())
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(native.ModelList(found))).decode())
        return
    columns = ("id", "type", "state", "capabilities", "context", "size", "why not")
    print_list(columns, map(_row, found))


@app.command()
def show(model: ModelId, as_json: AsJson = False) -> None:
    """Show what is known of one model."""
    found = [one for one in asyncio.run(listing.list_models()) if one.id == model]
    if not found:
        fail(model_not_found(model, read_catalog()))
    told = msgspec.to_builtins(found[0])
    if as_json:
        print_json(told)
    else:
        print_list(("field", "value"), ((name, _plain(value)) for name, value in told.items()))


@app.command()
def load(
    model: ModelId,
    gpu_layers: Annotated[int, typer.Option(help="Decoder layers on the GPU; 0 is none.")] = 0,
    context_size: Annotated[int | None, typer.Option(help="Prompt and completion, in tokens.")] = None,
    batch_size: Annotated[int, typer.Option(help="Prompt tokens a step.")] = 512,
    max_sequences: Annotated[int, typer.Option(help="Requests that run at once.")] = 16,
    quantization: Annotated[str, typer.Option(help="none or int8.")] = "none",
    dtype: Annotated[str, typer.Option(help="auto, float32 or bfloat16.")] = "auto",
    as_json: AsJson = False,
) -> None:
    """Load a model into the running server; from then on it comes back after a restart."""
    given = {
        "gpu_layers": gpu_layers,
        "context_size": context_size,
        "batch_size": batch_size,
        "max_sequences": max_sequences,
        "quantization": quantization,
        "dtype": dtype,
    }
    try:
        body = parse({name: value for name, value in given.items() if value is not None}, native.LoadBody)
        loading = services.load_model(model_id=model, options=body.options(), actor=None, now=timezone.now())
        report = asyncio.run(loading)
    except (ApiError, EngineError) as error:
        fail(error)
    if as_json:
        print_json(msgspec.to_builtins(report))
    else:
        _tell_loaded(report)


@app.command()
def unload(
    model: ModelId,
    force: Annotated[bool, typer.Option("--force", help="Cancel running requests instead of finishing them.")] = False,
) -> None:
    """Unload a model from the running server; it does not come back by itself."""
    try:
        asyncio.run(services.unload_model(model_id=model, force=force, actor=None, now=timezone.now()))
    except HostUnavailable:  # the wish comes first
        typer.echo(f"No model host answers. It is kept that {model} is not wanted: none will load it.", err=True)
        return
    except (ApiError, EngineError) as error:
        fail(error)
    typer.echo(f"Unloaded {model}", err=True)


@app.command()
def download(
    repo_id: Annotated[str, typer.Argument(help="A repository of the hub: ORGANISATION/NAME.")],
    revision: Annotated[str | None, typer.Option(help="A branch, a tag or a commit.")] = None,
    include: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Only the weights that match; may be given again.")
    ] = None,
    quantize: Annotated[
        str | None, typer.Option(help="Of several GGUF files the one quantised so, as in Q4_K_M or Q8_0.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The model's id; else the repository's own name.")] = None,
    as_json: AsJson = False,
) -> None:
    """Download a model: safetensors or GGUF weights and what describes them, nothing that could run. What was cut off
    goes on where it ended."""
    try:
        with _Bar() as bar:
            done = download_model(
                repo_id=repo_id, revision=revision, include=include or [], quantize=quantize, name=name, progress=bar
            )
    except ApiError as error:
        fail(error)
    if as_json:
        print_json(
            {
                "id": done.model_id,
                "path": str(done.path),
                "repo_id": done.repo_id,
                "commit": done.commit,
                "size_bytes": done.size_bytes,
                "was_there": done.was_there,
            }
        )
    else:
        typer.echo(f"{done.model_id} {'was there already' if done.was_there else 'is there'}: {size(done.size_bytes)}")


@app.command()
def remove(
    model: ModelId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Unload a model everywhere and delete its files on this machine."""
    try:
        card = asyncio.run(services.find_card(model))
        if not yes and card.path is not None:
            if not sys.stdin.isatty():
                fail(f"This deletes {card.path}: say --yes.", WRONGLY_CALLED)
            typer.confirm(f"Delete {card.path}?", abort=True)
        asyncio.run(remove_model(model_id=model, actor=None, now=timezone.now()))
    except (ApiError, EngineError) as error:
        fail(error)
    typer.echo(f"Removed {model}", err=True)


def _row(model: native.Model) -> tuple[object, ...]:
    capabilities, bytes_ = ", ".join(model.capabilities), size(model.size_bytes) if model.size_bytes else ""
    return (model.id, model.type, model.state, capabilities, model.context_size, bytes_, model.error or "")


def _plain(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


def _tell_loaded(report: LoadReport) -> None:
    shown = msgspec.to_builtins(report) | {"memory_usage_bytes": size(report.memory_usage_bytes)}
    print_list(("field", "value"), ((name, _plain(value)) for name, value in shown.items()))


class _Bar:
    """A progress bar on stderr, where that is a terminal."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._shown = Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal)
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._shown.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._shown.stop()

    def begin(self, model_id: str, total: int) -> None:
        self._task = self._shown.add_task(model_id, total=total)

    def advance(self, count: int) -> None:
        if self._task is not None:
            self._shown.advance(self._task, count)
