#!/usr/bin/env python
"""Command line of the commerce project."""

import gc
import os
import sys

import django
from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line
from django.db import DatabaseError, OperationalError

from shared.environment import ignore_unknown_names

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "commerce.config.settings.base")
    if sys.argv[1:2] not in (["serve"], ["runserver"]):  # servers refuse them
        ignore_unknown_names()
    try:
        gc.disable()  # nothing that is imported is garbage: collections would take a sixth of the start
        django.setup()
        gc.enable()
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        print(f"{sys.argv[0]}: {error}", file=sys.stderr)
        sys.exit(2)
    except (OperationalError, OSError) as error:  # the database or the disk cannot be used
        reason = str(error).strip() or type(error).__name__
        print(f"{sys.argv[0]}: {reason}. See docs/operator/failures.md.", file=sys.stderr)
        sys.exit(3)
    except DatabaseError as error:
        if type(error) is not DatabaseError:
            raise  # an error of ours in a statement
        print(f"{sys.argv[0]}: the database is damaged: {error}. See docs/operator/failures.md.", file=sys.stderr)
        sys.exit(3)
