#!/usr/bin/env python
"""Command line of the commerce project."""

import os
import sys

from django.core.exceptions import ImproperlyConfigured
from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "commerce.config.settings.base")
    try:
        execute_from_command_line(sys.argv)
    except ImproperlyConfigured as error:
        print(f"{sys.argv[0]}: {error}", file=sys.stderr)
        sys.exit(2)
