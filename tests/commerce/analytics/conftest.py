"""Fixtures of the analytics tests."""

from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import time_machine

from commerce.analytics.reports import products
from tests.commerce.analytics.factories import Market, make_market

NOW = datetime(2026, 3, 30, 10, 30, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _nothing_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Count by category at each read, however slow the machine is."""
    monkeypatch.setattr(products, "REUSE_RATIO", 0)
    products._results.clear()


@pytest.fixture
def now(db: None) -> Iterator[datetime]:
    """Freeze the clock and return its time."""
    with time_machine.travel(NOW, tick=False):
        yield NOW


@pytest.fixture
def running_clock() -> Iterator[None]:
    """Set the clock to NOW and let it run, so that no test begins on one day and ends on the next."""
    with time_machine.travel(NOW, tick=True):
        yield


@pytest.fixture
def market(now: datetime) -> Market:
    return make_market()
