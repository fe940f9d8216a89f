"""The command `serve`."""

import logging
import os
from pathlib import Path
from typing import Annotated

import typer
from django.conf import settings
from msgspec.structs import replace

from inference.cli.database import import_settings, require_tables
from inference.cli.errors import EXIT_USAGE, exit_with_error
from inference.registry.reconciler import ModelReconciler
from inference.registry.supervisor import HostSupervisor
from shared.observability.logging import LEVELS
from shared.serving.server import uvicorn_server

APPLICATION = "inference.config.asgi:application"


def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 chooses a free one.")] = 8001,
    uds: Annotated[Path | None, typer.Option(help="A Unix socket to listen on instead of a port.")] = None,
    models_dir: Annotated[
        list[Path] | None, typer.Option(help="A folder of models, instead of STOA_MODELS_DIR. May be repeated.")
    ] = None,
    load: Annotated[list[str] | None, typer.Option(help="A model to load at the start. May be repeated.")] = None,
    autoload: Annotated[
        bool | None,
        typer.Option(help="Load a model when a request needs it.", show_default="STOA_AUTOLOAD"),
    ] = None,
    max_loaded: Annotated[
        int | None, typer.Option(min=1, help="Maximum number of loaded models.", show_default="STOA_MAX_LOADED_MODELS")
    ] = None,
    log_level: Annotated[
        str | None, typer.Option(help=f"One of {', '.join(LEVELS)}.", show_default="STOA_LOG_LEVEL")
    ] = None,
    drain: Annotated[float, typer.Option(min=0, help="Seconds to wait for running requests when stopping.")] = 30.0,
    reload: Annotated[bool, typer.Option(help="Restart when the code changes, for development.")] = False,
) -> None:
    """Run the API server until SIGTERM or Ctrl-C, and a model host if none is running.

    Models are loaded in the background after the start.
    """
    if log_level:
        _set_log_level(log_level.upper())
    try:
        uvicorn_server.require_storage()  # before the model host starts
    except uvicorn_server.CannotServe as error:
        exit_with_error(str(error))
    require_tables()
    import_settings()
    options = {"autoload": autoload, "max_loaded": max_loaded}
    settings.MODEL_POLICY = replace(
        settings.MODEL_POLICY, **{name: value for name, value in options.items() if value is not None}
    )
    if models_dir:
        settings.MODELS_DIRS = models_dir
        os.environ["STOA_MODELS_DIR"] = ",".join(map(str, models_dir))  # for the processes that --reload starts
    if load:
        os.environ["STOA_LOAD"] = ",".join(load)
    supervisor = HostSupervisor(ModelReconciler(also=load).reconcile)
    supervisor.start()
    try:
        uvicorn_server.serve(APPLICATION, host=host, port=port, uds=uds, drain_s=drain, reload=reload)
    except uvicorn_server.CannotServe as error:
        exit_with_error(str(error))
    finally:
        supervisor.stop()


def _set_log_level(level: str) -> None:
    if level not in LEVELS:
        exit_with_error(f"--log-level must be one of {', '.join(LEVELS)}, not {level[:20]}.", EXIT_USAGE)
    logging.getLogger().setLevel(level)
    settings.LOGGING["root"]["level"] = level  # the application configures logging again when it is imported
    os.environ["STOA_LOG_LEVEL"] = level  # for the processes that --reload starts
