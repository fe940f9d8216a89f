"""Leave this folder's tests out of the runs on PostgreSQL: they are not about the database."""

from tests.services import ignore_on_postgresql as pytest_ignore_collect  # noqa: F401  not about the database
