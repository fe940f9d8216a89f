"""`serve`: the web server, with a model host beside it where none runs yet."""

import logging
import os
from pathlib import Path
from typing import Annotated

import typer
from django.conf import settings
from msgspec.structs import replace

from inference.cli.database import refuse_empty_database
from inference.cli.failures import WRONGLY_CALLED, fail
from inference.registry.processes import Keeper
from inference.registry.reconciling import Reconciler
from shared.observability.logging import LEVELS
from shared.serving import server

APPLICATION = "inference.config.asgi:application"


def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8001,
    uds: Annotated[Path | None, typer.Option(help="A Unix socket to listen on instead.")] = None,
    models_dir: Annotated[list[Path] | None, typer.Option(help="A folder of models; may be given again.")] = None,
    load: Annotated[list[str] | None, typer.Option(help="A model to load at the start; may be given again.")] = None,
    autoload: Annotated[
        bool | None,
        typer.Option(help="A request for a model that is not loaded loads it.", show_default="STOA_AUTOLOAD"),
    ] = None,
    max_loaded: Annotated[
        int | None, typer.Option(min=1, help="So many models at once.", show_default="STOA_MAX_LOADED")
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(LEVELS)}.", show_default="STOA_LOG_LEVEL")
    ] = None,
    drain: Annotated[float, typer.Option(min=0, help="Seconds that running requests get at the end.")] = 30.0,
    reload: Annotated[bool, typer.Option(help="Start anew when the code changes: for development.")] = False,
) -> None:
    """Serve the API until SIGTERM or Ctrl-C. Models are loaded in the background after the start."""
    if log_level:
        _log_from(log_level.upper())
    refuse_empty_database()
    chosen = {"autoload": autoload, "max_loaded": max_loaded}
    settings.MODEL_POLICY = replace(
        settings.MODEL_POLICY, **{name: value for name, value in chosen.items() if value is not None}
    )
    if models_dir:
        settings.MODELS_DIRS = models_dir
        os.environ["STOA_MODELS_DIR"] = ",".join(map(str, models_dir))  # for the process that --reload starts
    if load:
        os.environ["STOA_LOAD"] = ",".join(load)
    keeper = Keeper(Reconciler(also=load).reconcile)
    keeper.start()
    try:
        server.serve(APPLICATION, host=host, port=port, uds=uds, drain_s=drain, reload=reload)
    except server.CannotServe as error:
        fail(str(error))
    finally:
        keeper.end()


def _log_from(level: str) -> None:
    if level not in LEVELS:
        fail(f"--log-level {level[:20]} is none of {', '.join(LEVELS)}.", WRONGLY_CALLED)
    logging.getLogger().setLevel(level)
    settings.LOGGING["root"]["level"] = level  # the application's import sets logging up once more
    os.environ["STOA_LOG_LEVEL"] = level  # for the process that --reload starts
