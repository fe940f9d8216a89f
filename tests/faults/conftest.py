"""Fixtures of the fault tests. STOA_TEST_WHOLE=1 runs them with the full counts of the acceptance page."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.postgresql import LocalPostgresql, find_binaries

StartPostgresql = Callable[..., LocalPostgresql]


@pytest.fixture(scope="session")
def whole() -> bool:
    """Return whether the full counts of the acceptance page are requested."""
    return os.environ.get("STOA_TEST_WHOLE", "") == "1"


@pytest.fixture
def start_postgresql() -> Iterator[StartPostgresql]:
    """Return a function that starts PostgreSQL servers; they are stopped after the test."""
    with postgresql_servers() as start:
        yield start


@contextmanager
def postgresql_servers() -> Iterator[StartPostgresql]:
    """Yield a function that starts PostgreSQL servers; they are stopped at the end of the block."""
    binaries = find_binaries()
    if binaries is None:
        reason = "PostgreSQL is not installed here. To run this: apt-get install postgresql."
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    with ExitStack() as running:

        def start(*, replica_of: LocalPostgresql | None = None, **options: int) -> LocalPostgresql:
            server = LocalPostgresql(binaries, **options)
            running.callback(server.stop)
            server.start_as_replica(replica_of) if replica_of else server.start()
            return server

        yield start
