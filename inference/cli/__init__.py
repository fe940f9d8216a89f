"""The command line: `stoa COMMAND`, or `python manage_inference.py COMMAND`.

`main` runs a command of `inference.cli.app`, or else a management command of Django.
"""

import gc
import logging
import os
import sys

import django
from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line, get_commands
from django.db import DatabaseError

from shared.environment import ignore_unknown_names

SERVER_COMMANDS = ("serve", "runserver", "host", "worker")


def main() -> None:
    """Run the command of sys.argv. The exit code is 0 or one of `inference.cli.errors`."""
    debug = sys.argv[1:2] == ["--debug"]
    command = sys.argv[1 + debug] if len(sys.argv) > 1 + debug else "--help"
    settings = "dev" if command == "runserver" else "base"
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", f"inference.config.settings.{settings}")
    if command not in SERVER_COMMANDS:
        ignore_unknown_names()
    gc.disable()  # nothing that is imported is garbage: collections would take a fifth of the start
    try:
        django.setup()
    except ImproperlyConfigured as error:
        print(f"stoa: {error}", file=sys.stderr)
        sys.exit(2)
    from inference.cli.app import app, command_names  # these need the apps that setup has loaded
    from inference.cli.database import exit_with_database_error

    gc.enable()
    if command not in command_names() and command in {*get_commands(), "help"}:
        execute_from_command_line(sys.argv)
        return
    if command not in SERVER_COMMANDS:
        logging.getLogger().setLevel(logging.WARNING)  # a terminal shows the command's output only
    try:
        app(args=sys.argv[1:] or ["--help"])
    except DatabaseError as error:
        if debug:
            raise
        exit_with_database_error(error)
    except Exception as error:
        if debug or command in SERVER_COMMANDS:
            raise
        print(f"stoa: {type(error).__name__}: {error}\nFor the traceback: stoa --debug {command} ...", file=sys.stderr)
        sys.exit(1)
