"""Settings for development: `base` with readable logs."""

from commerce.config.settings.base import *  # noqa: F403
from shared.observability.logging import logging_config

LOGGING = logging_config(level=LOG_LEVEL, form="console")  # noqa: F405
