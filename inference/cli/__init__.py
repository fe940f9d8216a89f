"""The command line: `stoa VERB`, or `python manage_inference.py VERB`. What is no verb of ours goes to Django."""

import logging
import os
import sys

import django
from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line, get_commands
from django.db import DatabaseError

SERVERS = ("serve", "host", "worker")


def main() -> None:
    """Run the verb on the command line. The exit status is one of `failures`, or 0."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inference.config.settings.base")
    try:
        django.setup()
    except ImproperlyConfigured as error:
        print(f"stoa: {error}", file=sys.stderr)
        sys.exit(2)
    from inference.cli.database import end_without_database  # they need what setup has made
    from inference.cli.verbs import app, verb_names

    first = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if first not in verb_names() and first in {*get_commands(), "help"}:
        execute_from_command_line(sys.argv)
        return
    if first not in SERVERS:
        logging.getLogger().setLevel(logging.WARNING)  # a terminal shows what was asked for
    try:
        app(args=sys.argv[1:] or ["--help"])
    except DatabaseError as error:
        end_without_database(error)
