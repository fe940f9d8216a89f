#!/usr/bin/env python
"""Command line of the commerce project."""

import gc
import os
import sys

import django
from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "commerce.config.settings.base")
    try:
        gc.disable()  # nothing that is imported is garbage: collections would take a sixth of the start
        django.setup()
        gc.enable()
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        print(f"{sys.argv[0]}: {error}", file=sys.stderr)
        sys.exit(2)
