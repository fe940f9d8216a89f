"""Counts are small every day; STOA_TEST_WHOLE=1 runs what the rows of the acceptance page say."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from tests.postgresql import LocalPostgresql, find_binaries

StartPostgresql = Callable[..., LocalPostgresql]


@pytest.fixture(scope="session")
def whole() -> bool:
    """Whether the rows' whole counts are asked for."""
    return os.environ.get("STOA_TEST_WHOLE", "") == "1"


@pytest.fixture
def start_postgresql() -> Iterator[StartPostgresql]:
    """Starts servers that a test may end and start again; they are gone afterwards."""
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
