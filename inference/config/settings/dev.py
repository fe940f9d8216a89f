"""Settings for development: `base` with readable logs, and daphne as the server of `runserver`."""

from importlib.util import find_spec

from django.core.exceptions import ImproperlyConfigured

from inference.config.settings.base import *  # noqa: F403
from shared.observability.logging import logging_config

if find_spec("daphne") is None:  # the demo does without it
    raise ImproperlyConfigured("runserver needs daphne: pip install -r requirements/inference.txt")

INSTALLED_APPS = ["daphne", *INSTALLED_APPS, "channels"]  # noqa: F405 daphne first: its `runserver` serves /ws too

LOGGING = logging_config(level=LOG_LEVEL, form="console")  # noqa: F405
