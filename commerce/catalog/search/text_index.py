"""The full text index of the database in use: `sqlite` or `postgresql`, which have the same functions."""

from types import ModuleType

from django.db import connection

from commerce.catalog.search import postgresql, sqlite


def text_index() -> ModuleType:
    return postgresql if connection.vendor == "postgresql" else sqlite
