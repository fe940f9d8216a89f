"""The command group `models`."""

import asyncio
import sys
from pathlib import Path
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

from inference.cli.errors import EXIT_NOT_FOUND, EXIT_USAGE, exit_with_error
from inference.cli.output import JsonOption, format_bytes, print_json, print_table
from inference.cli.server import call_server, is_remote, model_path, require_local
from inference.downloads.services import add_model, download_model, remove_model
from inference.engine import ENGINE_NAMES, STOA, EngineError, HostUnavailable
from inference.protocol.native.models import LoadModelRequest, ModelInfo, ModelList
from inference.protocol.parsing import parse_struct
from inference.registry import model_status, services
from shared.api.errors import ApiError

app = typer.Typer(help="Manage models.", no_args_is_help=True)

ModelId = Annotated[str, typer.Argument(metavar="MODEL", help="The model's id, as `stoa models list` shows it.")]


@app.command("list")
def list_(
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, as GET /models returns it.")] = False,
) -> None:
    """List all models and their states."""
    models = _read_models()
    if as_json:
        typer.echo(msgspec.json.format(msgspec.json.encode(ModelList(models))).decode())
        return
    columns = ("id", "type", "state", "capabilities", "context", "size", "error")
    print_table(columns, map(_row, models))


@app.command()
def show(model: ModelId, as_json: JsonOption = False) -> None:
    """Show all fields of a model."""
    models = _read_models()
    info = next((info for info in models if info.id == model), None)
    if info is None:
        names = ", ".join(info.id for info in models) or "none"
        exit_with_error(f"There is no model {model!r}. Available: {names}.", EXIT_NOT_FOUND)
    fields = msgspec.to_builtins(info)
    if as_json:
        print_json(fields)
    else:
        _print_fields(fields)


@app.command()
def load(
    model: ModelId,
    gpu_layers: Annotated[int, typer.Option(help="Decoder layers on the GPU; 0: none.")] = 0,
    context_size: Annotated[
        int | None,
        typer.Option(help="Prompt and completion tokens. By default the lesser of 2048 and the model's limit."),
    ] = None,
    batch_size: Annotated[int, typer.Option(help="Prompt tokens per step.")] = 512,
    max_sequences: Annotated[int, typer.Option(help="Requests that run at once.")] = 16,
    quantization: Annotated[str, typer.Option(help="none, int8 or int4.")] = "none",
    dtype: Annotated[str, typer.Option(help="auto, float32 or bfloat16.")] = "auto",
    cache_dtype: Annotated[str, typer.Option(help="Of the KV cache: auto or float32.")] = "auto",
    engine: Annotated[str, typer.Option(help=f"{', '.join(ENGINE_NAMES)}.")] = STOA,
    engine_options: Annotated[
        list[str] | None,
        typer.Option("--engine-option", metavar="NAME=VALUE", help="An option of another engine. May be repeated."),
    ] = None,
    replicas: Annotated[int, typer.Option(help="Processes that run the model, each with all of its memory.")] = 1,
    as_json: JsonOption = False,
) -> None:
    """Load a model into the running server, and again after every restart."""
    options = {
        "gpu_layers": gpu_layers,
        "context_size": context_size,
        "batch_size": batch_size,
        "max_sequences": max_sequences,
        "quantization": quantization,
        "dtype": dtype,
        "cache_dtype": cache_dtype,
        "engine": engine,
        "engine_options": dict(map(_parse_option, engine_options or ())),
        "replicas": replicas,
    }
    try:
        body = parse_struct({name: value for name, value in options.items() if value is not None}, LoadModelRequest)
        if is_remote():
            report = call_server("POST", model_path(model, "load"), msgspec.to_builtins(body))
        else:
            loading = services.load_model(model_id=model, options=body.options(), actor=None, now=timezone.now())
            report = msgspec.to_builtins(asyncio.run(loading))
    except (ApiError, EngineError) as error:
        exit_with_error(error)
    if as_json:
        print_json(report)
    else:
        sizes = {name: value for name, value in report.items() if name.endswith("_bytes")}
        _print_fields(report | {name: format_bytes(value) for name, value in sizes.items()})


def _parse_option(text: str) -> tuple[str, Any]:
    """Return the name and the value of NAME=VALUE: a number or true or false if it reads as one, else text."""
    name, equals, value = text.partition("=")
    if not equals:
        exit_with_error(f"--engine-option takes NAME=VALUE, not {text!r}.", EXIT_USAGE)
    try:
        return name, msgspec.json.decode(value)
    except msgspec.DecodeError:
        return name, value


@app.command()
def unload(
    model: ModelId,
    force: Annotated[bool, typer.Option("--force", help="Cancel running requests instead of finishing them.")] = False,
) -> None:
    """Unload a model from the running server, and do not load it again after a restart."""
    try:
        if is_remote():
            call_server("POST", model_path(model, "unload"), {"force": force})
        else:
            asyncio.run(services.unload_model(model_id=model, force=force, actor=None, now=timezone.now()))
    except HostUnavailable:  # the desired state was set before
        typer.echo(f"No model host is running. {model} will not be loaded again.", err=True)
        return
    except (ApiError, EngineError) as error:
        exit_with_error(error)
    typer.echo(f"Unloaded {model}", err=True)


@app.command()
def download(
    repo_id: Annotated[str, typer.Argument(help="A repository of the Hugging Face Hub: ORGANIZATION/NAME.")],
    revision: Annotated[str | None, typer.Option(help="A branch, a tag or a commit.")] = None,
    include: Annotated[
        list[str] | None, typer.Option(metavar="PATTERN", help="Download only matching weights. May be repeated.")
    ] = None,
    quantize: Annotated[
        str | None, typer.Option(help="The GGUF file with this quantization, as in Q4_K_M or Q8_0.")
    ] = None,
    name: Annotated[str | None, typer.Option(help="The model's id. By default the repository's name.")] = None,
    as_json: JsonOption = False,
) -> None:
    """Download a model: its safetensors or GGUF weights, config and tokenizer, but no code.

    An interrupted download is resumed.
    """
    require_local("models download")
    try:
        with _ProgressBar() as bar:
            result = download_model(
                repo_id=repo_id, revision=revision, include=include or [], quantize=quantize, name=name, progress=bar
            )
    except ApiError as error:
        exit_with_error(error)
    if as_json:
        print_json(
            {
                "id": result.model_id,
                "path": str(result.path),
                "repo_id": result.repo_id,
                "commit": result.commit,
                "size_bytes": result.size_bytes,
                "was_there": result.was_downloaded_before,
            }
        )
    else:
        verb = "Already downloaded" if result.was_downloaded_before else "Downloaded"
        typer.echo(f"{verb} {result.model_id}: {format_bytes(result.size_bytes)}")


@app.command()
def add(
    source: Annotated[
        str,
        typer.Argument(
            metavar="PATH|REPO_ID", help="A folder or a GGUF file, which is copied; or a repository to download."
        ),
    ],
    name: Annotated[str | None, typer.Option(help="The model's id. By default the last part of the source.")] = None,
) -> None:
    """Add a model to the model folder: copy it from a path, or download it from the Hugging Face Hub."""
    require_local("models add")
    path = Path(source).expanduser()
    if not path.exists():
        if source.count("/") != 1 or source.startswith((".", "/", "~")):
            exit_with_error(
                f"There is nothing at {source}, and it is no ORGANIZATION/NAME of a repository.", EXIT_NOT_FOUND
            )
        download(source, name=name)
        return
    try:
        model = add_model(source=path, name=name)
    except ApiError as error:
        exit_with_error(error)
    typer.echo(f"Added {model.id}: {format_bytes(model.size_bytes)}. Load it with: stoa models load {model.id}")
    if model.error:
        exit_with_error(f"It cannot be loaded. {model.error}")


@app.command()
def remove(
    model: ModelId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Unload a model on all machines, and delete its files on this one."""
    require_local("models remove")
    try:
        path = asyncio.run(services.find_model(model)).path
        if not yes and path is not None:
            if not sys.stdin.isatty():
                exit_with_error(f"Use --yes to delete {path}.", EXIT_USAGE)
            typer.confirm(f"Delete {path}?", abort=True)
        asyncio.run(remove_model(model_id=model, actor=None, now=timezone.now()))
    except (ApiError, EngineError) as error:
        exit_with_error(error)
    typer.echo(f"Removed {model}", err=True)


def _read_models() -> list[ModelInfo]:
    """Return the models of this machine, or of the server that STOA_URL names."""
    if not is_remote():
        return asyncio.run(model_status.list_models(with_members=True))
    try:
        return msgspec.convert(call_server("GET", "/models"), ModelList).models
    except (ApiError, EngineError) as error:
        exit_with_error(error)


def _row(model: ModelInfo) -> tuple[object, ...]:
    capabilities, size = ", ".join(model.capabilities), format_bytes(model.size_bytes) if model.size_bytes else ""
    return (model.id, model.type, model.state, capabilities, model.context_size, size, model.error or "")


def _print_fields(fields: dict[str, Any]) -> None:
    print_table(("field", "value"), ((name, _as_text(value)) for name, value in fields.items()))


def _as_text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return "" if value is None else str(value)


class _ProgressBar:
    """A download's progress bar on stderr, shown only on a terminal."""

    def __init__(self) -> None:
        console = Console(stderr=True)
        columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn())
        self._progress = Progress(*columns, TimeRemainingColumn(), console=console, disable=not console.is_terminal)
        self._task: TaskID | None = None

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def begin(self, model_id: str, total: int) -> None:
        self._task = self._progress.add_task(model_id, total=total)

    def advance(self, count: int) -> None:
        if self._task is not None:
            self._progress.advance(self._task, count)
