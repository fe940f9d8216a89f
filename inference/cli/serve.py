"""`serve`: the web server, with a model host beside it where none runs yet."""

import os
from pathlib import Path
from typing import Annotated

import typer
from django.conf import settings

from inference.cli.failures import fail
from inference.registry.processes import Keeper
from inference.registry.services import load_missing, want_models
from shared.serving import server

APPLICATION = "inference.config.asgi:application"


def serve(
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=0, max=65535, help="The port; 0 takes a free one.")] = 8001,
    uds: Annotated[Path | None, typer.Option(help="A Unix socket to listen on instead.")] = None,
    models_dir: Annotated[list[Path] | None, typer.Option(help="A folder of models; may be given again.")] = None,
    load: Annotated[list[str] | None, typer.Option(help="A model to load at the start; may be given again.")] = None,
    drain: Annotated[float, typer.Option(min=0, help="Seconds that running requests get at the end.")] = 30.0,
    reload: Annotated[bool, typer.Option(help="Start anew when the code changes: for development.")] = False,
) -> None:
    """Serve the API until SIGTERM or Ctrl-C. Models are loaded in the background after the start."""
    if models_dir:
        settings.MODELS_DIRS = models_dir
        os.environ["STOA_MODELS_DIR"] = ",".join(map(str, models_dir))  # for the process that --reload starts
    if load:
        want_models(load)
        os.environ["STOA_LOAD"] = ",".join(load)
    keeper = Keeper(load_missing)
    keeper.start()
    try:
        server.serve(APPLICATION, host=host, port=port, uds=uds, drain_s=drain, reload=reload)
    except server.CannotServe as error:
        fail(str(error))
    finally:
        keeper.end()
