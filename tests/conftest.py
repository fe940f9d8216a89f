"""Fixtures of all test runs: one running demo and one migrated database, with hooks for what a run makes once."""

from tests.migrated_database import django_db_keepdb, django_db_modify_db_settings  # noqa: F401
from tests.once_per_run import pytest_configure, pytest_unconfigure  # noqa: F401
from tests.running_stoa import stoa  # noqa: F401
