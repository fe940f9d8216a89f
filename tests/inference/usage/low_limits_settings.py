"""Test settings with limits low enough for a test to reach."""

from inference.config.settings.test import *  # noqa: F403

ADDRESS_REQUEST_LIMIT = 20
REQUEST_LIMIT = 25  # of pages
USER_REQUEST_LIMIT = 400
USER_CONCURRENCY_LIMIT = 6
MAX_IDEMPOTENT_RESPONSE_BYTES_PER_USER = 300_000
