"""Fixtures of the fault tests. STOA_TEST_WHOLE=1 runs them with the full counts of the acceptance page."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

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
    binaries = find_binaries()
    if binaries is None:
        reason = "PostgreSQL is not installed here. To run this: apt-get install postgresql."
        pytest.fail(reason) if os.environ.get("CI") == "true" else pytest.skip(reason)
    with ExitStack() as running:

        def start(**options: int) -> LocalPostgresql:
            server = LocalPostgresql(binaries, **options)
            running.callback(server.stop)
            server.start()
            return server

        yield start
