"""Fair sharing of slots between users, independent of arrival and number of requests."""

from collections import Counter

from tests.inference.engine.sequences import end, generation, names, scheduler, step


def test_users_with_many_requests_and_with_one_take_turns() -> None:
    one = scheduler(slots=1)
    for place in range(5):
        one.add(generation(f"many {place}", user="many"))
    one.add(generation("one", user="one"))
    order = []
    for _ in range(6):
        plan = step(one)
        order += names(plan.admitted)
        for _ in range(3):
            step(one)
        end(one, plan.admitted[0].generation)
    assert order == ["many 0", "one", "many 1", "many 2", "many 3", "many 4"]


def test_r5_a_late_user_preempts_a_user_with_many_slots() -> None:
    one = scheduler(slots=4)
    for place in range(80):
        one.add(generation(f"many {place}", user="many"))
    step(one)
    one.add(generation("late", user="late"))
    plan = step(one)
    assert names(plan.admitted) == ["late"]
    assert [sequence.generation.request_id for sequence, _ in plan.preempted] == ["many 0"]


def test_slots_are_shared_evenly_and_then_nothing_is_preempted() -> None:
    one = scheduler(slots=8)
    for place in range(20):
        one.add(generation(f"first {place}", user="first"))
    step(one)
    for place in range(20):
        one.add(generation(f"second {place}", user="second"))
    step(one)
    moved = one.counts.preemptions
    running: Counter[str] = Counter()
    for _ in range(30):
        plan = step(one)
        running = Counter(sequence.generation.user for sequence in plan.decodes)
        assert plan.preempted == []
    assert running == {"first": 4, "second": 4}
    assert moved == 4


def test_freed_slots_keep_the_shares_even() -> None:
    one = scheduler(slots=8)
    for place in range(40):
        for user in ("first", "second"):
            one.add(generation(f"{user} {place}", user=user))
    for _ in range(30):
        plan = step(one)
        assert plan.preempted == []
        shares = Counter(sequence.generation.user for sequence in plan.decodes)
        assert max(shares.values(), default=4) <= 4
        if len(plan.decodes) > 1:
            end(one, plan.decodes[0].generation)


def test_among_users_with_equal_slots_the_least_served_is_next() -> None:
    one = scheduler(slots=2, batch_size=1000)
    for user, size in [("much", 500), ("little", 10)]:
        one.add(generation(f"{user} 0", size, user=user))
    step(one)
    for place in range(1, 3):
        for user in ("much", "little"):
            one.add(generation(f"{user} {place}", 10, user=user))
    for name in ("much 0", "little 0"):
        end(one, one.find(name))  # type: ignore[arg-type]
    assert names(step(one).admitted) == ["little 1", "much 1"]


def test_absence_earns_no_credit() -> None:
    one = scheduler(slots=1, batch_size=1000)
    works = generation("works", 900, user="works")
    one.add(works)
    step(one)
    for place in range(3):
        one.add(generation(f"works {place}", user="works"))
        one.add(generation(f"rested {place}", user="rested"))
    end(one, works)
    order = []
    for _ in range(4):
        plan = step(one)
        order += names(plan.admitted)
        end(one, plan.admitted[0].generation)
    assert order == ["works 0", "rested 0", "works 1", "rested 1"]


def test_batch_work_of_users_takes_turns() -> None:
    one = scheduler(slots=4)
    for place in range(10):
        one.add(generation(f"first {place}", user="first", batch=True))
    step(one)
    one.add(generation("second", user="second", batch=True))
    plan = step(one)
    assert names(plan.admitted) == ["second"]
