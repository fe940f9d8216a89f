"""Cooling down and crash loops, by the clock that is passed in."""

from inference.engine import HostOptions
from inference.engine.host.backoff import Cooldowns, CrashLoop

POLICY = HostOptions(first_cooldown=5, max_cooldown=60)


def test_each_failure_of_the_same_cools_twice_as_long_up_to_a_limit() -> None:
    cooldowns = Cooldowns(POLICY)
    seconds = []
    for _ in range(6):
        cooldowns.record_failure("m", "content", 100)
        seconds.append(cooldowns.seconds_left("m", "content", 100))
    assert seconds == [5, 10, 20, 40, 60, 60]
    assert cooldowns.seconds_left("m", "content", 159) == 1
    assert cooldowns.seconds_left("m", "content", 160) == 0


def test_a_success_ends_it_and_the_next_failure_is_the_first() -> None:
    cooldowns = Cooldowns(POLICY)
    cooldowns.record_failure("m", "content", 0)
    cooldowns.record_failure("m", "content", 0)
    cooldowns.reset("m")
    assert cooldowns.seconds_left("m", "content", 0) == 0
    cooldowns.record_failure("m", "content", 0)
    assert cooldowns.seconds_left("m", "content", 0) == 5


def test_other_content_and_other_models_may_be_tried_at_once() -> None:
    cooldowns = Cooldowns(POLICY)
    cooldowns.record_failure("m", "content", 0)
    assert cooldowns.seconds_left("m", "mended", 0) == 0
    assert cooldowns.seconds_left("n", "content", 0) == 0
    cooldowns.record_failure("m", "mended", 0)
    assert cooldowns.seconds_left("m", "mended", 0) == 5


def test_three_crashes_without_a_finished_request_are_a_loop() -> None:
    crashes = CrashLoop()
    assert [crashes.record(at, was_useful=False) for at in (0, 50, 100)] == [False, False, True]


def test_crashes_far_apart_are_none() -> None:
    crashes = CrashLoop()
    assert not any(crashes.record(at, was_useful=False) for at in range(0, 1000, 61))


def test_a_model_that_finishes_requests_between_its_crashes_goes_on_until_there_are_fifteen_in_a_minute() -> None:
    crashes = CrashLoop()
    assert [crashes.record(at, was_useful=True) for at in range(15)] == [False] * 14 + [True]
    crashes = CrashLoop()
    assert not any(crashes.record(5 * count, was_useful=True) for count in range(100))


def test_a_finished_request_begins_the_count_anew() -> None:
    crashes = CrashLoop()
    useful = [False, False, True, False, False, False]
    assert [crashes.record(at, was_useful=one) for at, one in enumerate(useful)] == [False] * 5 + [True]
