"""Row N11: users take turns at slots, and one user has only so many jobs waiting."""

import threading
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from shared.fair_slots import FairSlots, SlotsFull


def wait_until_waiting(slots: FairSlots, count: int) -> None:
    while sum(map(len, slots._queues.values())) < count:
        threading.Event().wait(0.001)


def test_n11_users_take_turns_however_many_jobs_one_of_them_has_waiting():
    slots, order = FairSlots(1, max_waiting_per_user=100), list[str]()

    def work(user: str) -> None:
        with slots.acquire(user, timeout_s=60):
            order.append(user)

    with ThreadPoolExecutor(40) as threads:
        jobs: list[Future[None]] = []
        with slots.acquire("other", timeout_s=60):
            for number, user in enumerate(["crowd"] * 30 + ["one", "two", "one"]):
                jobs.append(threads.submit(work, user))
                wait_until_waiting(slots, number + 1)
        for job in jobs:
            job.result(60)
    assert order[:6] == ["crowd", "one", "two", "crowd", "one", "crowd"]
    assert len(order) == 33


def test_n11_jobs_of_no_user_take_turns_too():
    slots = FairSlots(1, max_waiting_per_user=100)

    def work() -> str:
        with slots.acquire("", timeout_s=60):
            return "done"

    with ThreadPoolExecutor(1) as threads:
        with slots.acquire("", timeout_s=60):
            job = threads.submit(work)
            wait_until_waiting(slots, 1)
        assert job.result(30) == "done"


def test_n11_a_user_with_too_many_waiting_jobs_is_refused_at_once_and_others_are_not():
    slots = FairSlots(1, max_waiting_per_user=2)

    def work(user: str) -> str:
        with slots.acquire(user, timeout_s=60):
            return user

    with ThreadPoolExecutor(4) as threads:
        with slots.acquire("crowd", timeout_s=60):
            jobs = [threads.submit(work, "crowd") for _ in range(2)]
            wait_until_waiting(slots, 2)
            refused = threads.submit(work, "crowd")
            assert isinstance(refused.exception(30), SlotsFull)  # without waiting for a slot
            jobs.append(threads.submit(work, "other"))
            wait_until_waiting(slots, 3)
        assert [job.result(60) for job in jobs] == ["crowd", "crowd", "other"]


def test_n11_a_user_without_a_slot_does_not_wait_for_one_with_many_jobs():
    slots, ending = FairSlots(3, max_waiting_per_user=100), threading.Event()
    only_ones = list[bool]()

    def work() -> None:
        with slots.acquire("crowd", timeout_s=60) as is_only_one:
            only_ones.append(is_only_one)
            ending.wait(60)

    with ThreadPoolExecutor(9) as threads:
        jobs = [threads.submit(work)]
        while not only_ones:
            threading.Event().wait(0.001)
        jobs += [threads.submit(work) for _ in range(8)]
        wait_until_waiting(slots, 7)
        for _ in range(3):
            with slots.acquire("other", timeout_s=0) as is_only_one:
                assert is_only_one
                with pytest.raises(SlotsFull), slots.acquire("other", timeout_s=0):
                    raise AssertionError
        ending.set()
        for job in jobs:
            job.result(60)
    assert only_ones[:2] == [True, False]


def test_n11_one_end_lets_all_jobs_begin_that_it_makes_room_for():
    slots = FairSlots(3, max_waiting_per_user=100)
    ending = {"a": threading.Event(), "b": threading.Event()}
    began = {"a": threading.Semaphore(0), "b": threading.Semaphore(0)}

    def work(user: str) -> None:
        with slots.acquire(user, timeout_s=60):
            began[user].release()
            ending[user].wait(60)

    with ThreadPoolExecutor(4) as threads:
        jobs = [threads.submit(work, "a"), threads.submit(work, "b")]
        assert began["a"].acquire(timeout=30)
        assert began["b"].acquire(timeout=30)
        jobs += [threads.submit(work, "a"), threads.submit(work, "b")]  # the third slot is for a third user
        wait_until_waiting(slots, 2)
        ending["b"].set()
        jobs[1].result(30)
        both_began = began["a"].acquire(timeout=5) and began["b"].acquire(timeout=5)
        ending["a"].set()
        for job in jobs:
            job.result(60)
    assert both_began  # a's second has the slot that ended, and b, who held none by then, the last one


def test_n11_a_job_that_gave_up_takes_no_turn():
    slots = FairSlots(1, max_waiting_per_user=2)
    with slots.acquire("a", timeout_s=1):
        for _ in range(5):
            with pytest.raises(SlotsFull), slots.acquire("b", timeout_s=0):
                raise AssertionError
    with slots.acquire("b", timeout_s=0), pytest.raises(SlotsFull), slots.acquire("a", timeout_s=0):
        raise AssertionError
