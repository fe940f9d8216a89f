"""One server for all tests that only use it."""

from collections.abc import Iterator

import pytest

from tests.inference.running_server import RunningServer, running_server_with_fake_models


@pytest.fixture(scope="session")
def stoa() -> Iterator[RunningServer]:
    """A running server with fake models."""
    with running_server_with_fake_models("idle", "slow-one", "broken-one") as served:
        yield served
