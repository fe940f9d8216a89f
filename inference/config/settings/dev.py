"""Settings for development: `base` with readable logs, and daphne as the server of `runserver`."""

from inference.config.settings.base import *  # noqa: F403
from shared.observability.logging import logging_config

INSTALLED_APPS = ["daphne", *INSTALLED_APPS, "channels"]  # noqa: F405 daphne first: its `runserver` serves /ws too

LOGGING = logging_config(level=LOG_LEVEL, form="console")  # noqa: F405
