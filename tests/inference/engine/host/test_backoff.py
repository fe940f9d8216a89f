"""Cooldowns and crash loops, with the time passed in."""

from inference.engine import HostOptions
from inference.engine.host.backoff import Cooldowns, CrashLoop

POLICY = HostOptions(first_cooldown=5, max_cooldown=60)


def test_the_cooldown_doubles_with_each_failure_up_to_a_limit() -> None:
    cooldowns = Cooldowns(POLICY)
    seconds = []
    for _ in range(6):
        cooldowns.record_failure("m", "content", 100)
        seconds.append(cooldowns.seconds_left("m", "content", 100))
    assert seconds == [5, 10, 20, 40, 60, 60]
    assert cooldowns.seconds_left("m", "content", 159) == 1
    assert cooldowns.seconds_left("m", "content", 160) == 0


def test_a_success_resets_the_cooldown() -> None:
    cooldowns = Cooldowns(POLICY)
    cooldowns.record_failure("m", "content", 0)
    cooldowns.record_failure("m", "content", 0)
    cooldowns.reset("m")
    assert cooldowns.seconds_left("m", "content", 0) == 0
    cooldowns.record_failure("m", "content", 0)
    assert cooldowns.seconds_left("m", "content", 0) == 5


def test_other_content_and_other_models_have_no_cooldown() -> None:
    cooldowns = Cooldowns(POLICY)
    cooldowns.record_failure("m", "content", 0)
    assert cooldowns.seconds_left("m", "mended", 0) == 0
    assert cooldowns.seconds_left("n", "content", 0) == 0
    cooldowns.record_failure("m", "mended", 0)
    assert cooldowns.seconds_left("m", "mended", 0) == 5


def test_three_crashes_without_a_finished_request_are_a_loop() -> None:
    crashes = CrashLoop()
    assert [crashes.record(at, was_useful=False) for at in (0, 50, 100)] == [False, False, True]


def test_crashes_far_apart_are_no_loop() -> None:
    crashes = CrashLoop()
    assert not any(crashes.record(at, was_useful=False) for at in range(0, 1000, 61))


def test_fifteen_crashes_in_a_minute_are_a_loop_even_with_finished_requests() -> None:
    crashes = CrashLoop()
    assert [crashes.record(at, was_useful=True) for at in range(15)] == [False] * 14 + [True]
    crashes = CrashLoop()
    assert not any(crashes.record(5 * count, was_useful=True) for count in range(100))


def test_a_finished_request_resets_the_crash_count() -> None:
    crashes = CrashLoop()
    useful = [False, False, True, False, False, False]
    assert [crashes.record(at, was_useful=one) for at, one in enumerate(useful)] == [False] * 5 + [True]
