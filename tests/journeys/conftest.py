"""These tests use all of Stoa from outside, as its users do."""

from pathlib import Path

import pytest

from tests.running_stoa import in_one_worker, stoa  # noqa: F401


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    in_one_worker(items, Path(__file__).parent)
