"""The breaker's states, by a clock that the test turns."""

import pytest

from commerce.descriptions.breaker import BreakerOpen, CircuitBreaker


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def breaker(clock: Clock) -> CircuitBreaker:
    return CircuitBreaker(failures=5, rest_s=30, clock=clock)


def fail(breaker: CircuitBreaker, times: int) -> None:
    for _ in range(times):
        breaker.admit()
        breaker.failed()


def test_four_failures_in_a_row_change_nothing(breaker: CircuitBreaker):
    fail(breaker, 4)

    breaker.admit()


def test_the_fifth_failure_in_a_row_opens_it(breaker: CircuitBreaker):
    fail(breaker, 5)

    with pytest.raises(BreakerOpen):
        breaker.admit()


def test_a_success_in_between_starts_the_count_again(breaker: CircuitBreaker):
    fail(breaker, 4)
    breaker.admit()
    breaker.succeeded()
    fail(breaker, 4)

    breaker.admit()


def test_it_stays_open_until_the_rest_is_over_and_then_lets_one_through(breaker: CircuitBreaker, clock: Clock):
    fail(breaker, 5)
    clock.now = 29.9
    with pytest.raises(BreakerOpen):
        breaker.admit()
    clock.now = 30

    breaker.admit()
    with pytest.raises(BreakerOpen):
        breaker.admit()


def test_a_probe_that_succeeds_closes_it(breaker: CircuitBreaker, clock: Clock):
    fail(breaker, 5)
    clock.now = 30
    breaker.admit()
    breaker.succeeded()

    fail(breaker, 4)
    breaker.admit()


def test_a_probe_that_fails_opens_it_for_another_rest(breaker: CircuitBreaker, clock: Clock):
    fail(breaker, 5)
    clock.now = 30
    fail(breaker, 1)
    clock.now = 59

    with pytest.raises(BreakerOpen):
        breaker.admit()
    clock.now = 60
    breaker.admit()


def test_a_probe_that_was_given_up_leaves_the_next_one_to_find_out(breaker: CircuitBreaker, clock: Clock):
    fail(breaker, 5)
    clock.now = 30
    breaker.admit()
    breaker.abandoned()

    breaker.admit()
