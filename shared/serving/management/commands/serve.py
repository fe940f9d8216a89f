"""`serve`: the project's web process."""

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from shared.serving.server.uvicorn_server import CannotServe, serve


class Command(BaseCommand):
    help = "Serve this project over HTTP until SIGTERM, which lets running requests end first."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--host", default="127.0.0.1", help="address to listen on (default: this machine alone)")
        parser.add_argument("--port", type=int, default=8000, help="0 takes a free one (default: 8000)")
        parser.add_argument("--uds", type=Path, help="listen on this Unix socket instead")
        parser.add_argument("--drain", type=float, default=30, metavar="S", help="seconds that running requests have")
        parser.add_argument("--reload", action="store_true", help="start anew when a file changes (development)")

    def handle(self, *args: Any, **options: Any) -> None:
        module, _, attribute = settings.ASGI_APPLICATION.rpartition(".")
        try:
            serve(
                f"{module}:{attribute}",
                host=options["host"],
                port=options["port"],
                uds=options["uds"],
                drain_s=options["drain"],
                reload=options["reload"],
            )
        except CannotServe as error:
            raise CommandError(str(error)) from error
