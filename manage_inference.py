#!/usr/bin/env python
"""The command line of the inference project."""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "inference.config.settings.base")
    execute_from_command_line(sys.argv)
