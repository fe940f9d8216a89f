"""Excludes this folder from runs on PostgreSQL: its tests do not depend on that database."""

from tests.services import ignore_on_postgresql as pytest_ignore_collect  # noqa: F401  not about the database
