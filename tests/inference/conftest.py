"""One server for all tests that only use it."""

from collections.abc import Iterator

import pytest

from inference.pools import cache
from tests.inference.running_server import RunningServer, running_server_with_fake_models


@pytest.fixture(scope="session")
def stoa() -> Iterator[RunningServer]:
    """A running server with fake models."""
    with running_server_with_fake_models("idle", "slow-one", "broken-one") as served:
        yield served


@pytest.fixture(autouse=True)
def _no_cached_pools(request: pytest.FixtureRequest) -> Iterator[None]:
    """Let a test read the pools anew, or have none if it has no database."""
    if request.node.get_closest_marker("django_db") or {"db", "transactional_db"} & set(request.fixturenames):
        cache.expire()
    else:
        cache.use_only()
    yield
    cache.use_only()
