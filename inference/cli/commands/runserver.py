"""The command `runserver`."""

import contextlib
import os
import sys
from collections.abc import Iterator

import typer
from django.apps import apps
from django.conf import settings
from django.core.management import execute_from_command_line
from django.utils.autoreload import DJANGO_AUTORELOAD_ENV

from inference.cli.database import import_settings, require_tables
from inference.cli.errors import EXIT_USAGE, exit_with_error
from inference.registry.reconciler import ModelReconciler
from inference.registry.supervisor import HostSupervisor

NO_REDIS_NOTICE = (
    "REDIS_URL is not set. Rate limits are counted in this process only. Batches and webhooks wait: they need "
    "REDIS_URL and `python manage_inference.py worker`."
)
WRONG_SETTINGS = (
    "runserver does not run with {module}: set DJANGO_SETTINGS_MODULE to inference.config.settings.dev, or use `serve` "
    "for a server that others can reach."
)


def runserver(context: typer.Context) -> None:
    """Run Django's development server, with /ws and a model host. It restarts when the code changes.

    It needs the settings of development, which it takes unless DJANGO_SETTINGS_MODULE names others. Options are
    Django's.
    """
    if not apps.is_installed("daphne"):  # Django's own server has no /ws and no limits
        exit_with_error(WRONG_SETTINGS.format(module=settings.SETTINGS_MODULE), EXIT_USAGE)
    require_tables()
    import_settings()
    with _model_host() if _is_first_process() else contextlib.nullcontext():
        execute_from_command_line([sys.argv[0], "runserver", *context.args])


def _is_first_process() -> bool:
    """Return whether this is not a process that Django's autoreloader has started, and ends at the next change."""
    return DJANGO_AUTORELOAD_ENV not in os.environ


@contextlib.contextmanager
def _model_host() -> Iterator[None]:
    if not settings.REDIS_URL:
        typer.echo(NO_REDIS_NOTICE, err=True)
    supervisor = HostSupervisor(ModelReconciler().reconcile)
    supervisor.start()
    try:
        yield
    finally:
        supervisor.stop()
