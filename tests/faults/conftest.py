"""Counts are small every day; STOA_TEST_WHOLE=1 runs what the rows of the acceptance page say."""

import os

import pytest


@pytest.fixture(scope="session")
def whole() -> bool:
    """Whether the rows' whole counts are asked for."""
    return os.environ.get("STOA_TEST_WHOLE", "") == "1"
