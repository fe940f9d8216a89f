"""Tests of the circuit breaker with a fake clock."""

import pytest

from commerce.model_server.circuit_breaker import CircuitBreaker, CircuitOpen

pytestmark = pytest.mark.no_database


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> CircuitBreaker:
    return CircuitBreaker(max_failures=5, cooldown_seconds=30, clock=clock)


def fail(breaker: CircuitBreaker, times: int) -> None:
    for _ in range(times):
        breaker.admit()
        breaker.record_failure()


def test_four_consecutive_failures_keep_it_closed(breaker: CircuitBreaker):
    fail(breaker, 4)

    breaker.admit()


def test_fifth_consecutive_failure_opens_it(breaker: CircuitBreaker):
    fail(breaker, 5)

    with pytest.raises(CircuitOpen):
        breaker.admit()


def test_success_resets_the_count(breaker: CircuitBreaker):
    fail(breaker, 4)
    breaker.admit()
    breaker.record_success()
    fail(breaker, 4)

    breaker.admit()


def test_it_stays_open_for_the_cooldown_and_then_admits_one_probe(breaker: CircuitBreaker, clock: Clock):
    fail(breaker, 5)
    clock.now = 29.9
    with pytest.raises(CircuitOpen):
        breaker.admit()
    clock.now = 30

    breaker.admit()
    with pytest.raises(CircuitOpen):
        breaker.admit()


def test_successful_probe_closes_it(breaker: CircuitBreaker, clock: Clock):
    fail(breaker, 5)
    clock.now = 30
    breaker.admit()
    breaker.record_success()

    fail(breaker, 4)
    breaker.admit()


def test_failed_probe_opens_it_for_another_cooldown(breaker: CircuitBreaker, clock: Clock):
    fail(breaker, 5)
    clock.now = 30
    fail(breaker, 1)
    clock.now = 59

    with pytest.raises(CircuitOpen):
        breaker.admit()
    clock.now = 60
    breaker.admit()


def test_abandoned_probe_lets_the_next_call_probe(breaker: CircuitBreaker, clock: Clock):
    fail(breaker, 5)
    clock.now = 30
    breaker.admit()
    breaker.record_abandoned()

    breaker.admit()
