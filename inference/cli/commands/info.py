"""The commands `version` and `info`."""

import asyncio
import platform
from typing import Any

import django
import typer
from django.conf import settings

from inference.cli.output import JsonOption, print_json, print_table
from inference.registry.model_status import list_models


def version() -> None:
    """Show the version."""
    typer.echo(f"stoa {settings.VERSION}")


def info(as_json: JsonOption = False) -> None:
    """Show the versions, paths and models of this installation."""
    fields = asyncio.run(_read_info())
    if as_json:
        print_json(fields)
        return
    rows = ((name, ", ".join(value) if isinstance(value, list) else value) for name, value in fields.items())
    print_table(("field", "value"), rows)


async def _read_info() -> dict[str, Any]:
    models = await list_models()
    return {
        "version": settings.VERSION,
        "python": platform.python_version(),
        "django": django.get_version(),
        "settings": settings.SETTINGS_MODULE,
        "database": settings.DATABASES["default"]["ENGINE"].rpartition(".")[2],
        "data": str(settings.VAR_DIR),
        "model_folders": [str(path) for path in (*settings.MODELS_DIRS, settings.BUILTIN_MODELS_DIR)],
        "model_host": str(settings.RUN_DIR),
        "models": [model.id for model in models],
        "loaded": [model.id for model in models if model.loaded],
    }
