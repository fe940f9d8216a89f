"""The command line: `stoa VERB`, or `python manage_inference.py VERB`. What is no verb of ours goes to Django."""

import logging
import os
import sys

import django
from django.core.management import execute_from_command_line

SERVERS = ("serve", "host", "worker")


def main() -> None:
    """Run the verb on the command line. Exit status: 0 done, 1 failed, 2 wrongly called."""
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inference.config.settings.base")
    django.setup()
    from inference.cli.verbs import app, verb_names  # they need what setup has made

    first = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if first in verb_names() or first.startswith("-"):
        if first not in SERVERS:
            logging.getLogger().setLevel(logging.WARNING)  # a terminal shows what was asked for
        app(args=sys.argv[1:] or ["--help"])
    else:
        execute_from_command_line(sys.argv)
