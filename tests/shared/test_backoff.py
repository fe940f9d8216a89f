"""Pauses after failures."""

import pytest

from shared.backoff import Backoff

pytestmark = pytest.mark.no_database


@pytest.mark.parametrize(
    ("failure_count", "at_least", "seconds"),
    [(1, 0, 2), (2, 0, 4), (4, 0, 16), (5, 0, 20), (10_000, 0, 20), (1, 7, 7), (3, 7, 8), (1, 3600, 20)],
)
def test_pauses_double_up_to_the_maximum_and_last_as_long_as_the_server_asks(
    failure_count: int, at_least: float, seconds: float
):
    assert Backoff(2, 20).seconds(failure_count, at_least=at_least) == seconds


def test_pauses_vary_by_the_jitter():
    pauses = [Backoff(10, 10, jitter=0.2).seconds(1) for _ in range(500)]
    assert 8 <= min(pauses) < 9
    assert 11 < max(pauses) <= 12
