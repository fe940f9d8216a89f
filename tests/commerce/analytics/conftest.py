"""What the tests of the figures may ask for."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import time_machine

from tests.commerce.analytics.market import Market, make_market

NOW = datetime(2026, 3, 30, 10, 30, tzinfo=UTC)


@pytest.fixture
def now(db: None) -> Iterator[datetime]:
    """The time, which stands still."""
    with time_machine.travel(NOW, tick=False):
        yield NOW


@pytest.fixture
def market(now: datetime) -> Market:
    return make_market()
