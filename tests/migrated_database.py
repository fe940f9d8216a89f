"""The migrated database of a test run, which is made once and copied: migrating the shop's takes 18 seconds."""

import os
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from django.conf import settings
from django.test import TransactionTestCase

from tests.once_per_run import once_per_run

REPOSITORY = Path(__file__).resolve().parent.parent


@pytest.fixture(scope="session")
def django_db_modify_db_settings(django_db_modify_db_settings_parallel_suffix: None) -> None:
    """Let Django's test database start as a copy of the migrated one. Overrides pytest-django's fixture."""
    test_settings = settings.DATABASES["default"]["TEST"]
    if is_postgresql():
        test_settings["TEMPLATE"] = _migrated_database()
    else:
        shutil.copyfile(migrated_file(), test_settings["NAME"])


@pytest.fixture(scope="session")
def django_db_keepdb() -> bool:
    """Let Django use the copied file. Overrides pytest-django's fixture."""
    return not is_postgresql()


@pytest.fixture(scope="session")
def django_db_setup(django_db_setup: None) -> Iterator[None]:
    """Extend pytest-django's fixture: let tests of several transactions empty the audit log, and end sessions.

    The sessions are those that threads of tests have left, which would keep the database from being dropped.
    """
    from tests.shared.audit.emptying import empty_database  # here: it needs the models

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(TransactionTestCase, "_fixture_teardown", empty_database)
        yield
    if is_postgresql():
        others = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s"
        with psycopg.connect(os.environ["DATABASE_URL"], autocommit=True) as connection:
            connection.execute(others, [settings.DATABASES["default"]["NAME"]])


def migrate_once() -> None:
    """Make the run's migrated database."""
    _migrated_database() if is_postgresql() else migrated_file()


def is_postgresql() -> bool:
    return os.environ.get("DATABASE_URL", "").startswith("postgres")


def migrated_file() -> Path:
    """Return the run's migrated SQLite file."""
    return once_per_run(make_migrated_file)[0] / "stoa.sqlite3"


def copy_migrated_database(name: str) -> str:
    """Create a PostgreSQL database as a copy of the run's migrated one, and return its URL."""
    return create_database(name, template=_migrated_database())


def create_database(name: str, *, template: str = "template1") -> str:
    """Create a database on the run's PostgreSQL server, and return its URL."""
    server = os.environ["DATABASE_URL"]
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name} TEMPLATE {template}")
    return urlunsplit(urlsplit(server)._replace(path=f"/{name}"))


def make_migrated_file(folder: Path) -> str:
    _migrate(f"sqlite:///{folder}/stoa.sqlite3")
    return ""


def make_migrated_database(folder: Path) -> str:
    name = f"migrated_{uuid.uuid4().hex[:12]}"
    _migrate(create_database(name))
    return name


def _migrated_database() -> str:
    return once_per_run(make_migrated_database)[1]


def _migrate(url: str) -> None:
    command = [sys.executable, "-m", "django", "migrate", "-v0"]
    # A run of tests that use Stoa from outside has no settings: of the projects it is the model server's that it wants.
    environment = {"DJANGO_SETTINGS_MODULE": "inference.config.settings.test"} | os.environ | {"DATABASE_URL": url}
    done = subprocess.run(command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
