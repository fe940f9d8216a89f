"""One server for all tests that only use it."""

from collections.abc import Iterator

import pytest

from tests.inference.served import ServedStoa, served_fakes


@pytest.fixture(scope="session")
def stoa() -> Iterator[ServedStoa]:
    """A running server with fake models."""
    with served_fakes("idle", "slow-one", "broken-one") as served:
        yield served
