"""`version` and `info`: what this installation is and uses."""

import asyncio
import platform
from typing import Any

import django
import typer
from django.conf import settings

from inference.cli.listings import AsJson, print_json, print_list
from inference.registry.listing import list_models


def version() -> None:
    """Print the version."""
    typer.echo(f"stoa {settings.VERSION}")


def info(as_json: AsJson = False) -> None:
    """Print what this installation uses and what runs."""
    facts = asyncio.run(_facts())
    if as_json:
        print_json(facts)
        return
    rows = ((name, ", ".join(value) if isinstance(value, list) else value) for name, value in facts.items())
    print_list(("what", "which"), rows)


async def _facts() -> dict[str, Any]:
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
