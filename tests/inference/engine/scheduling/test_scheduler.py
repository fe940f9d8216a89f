"""The scheduler: admission, queue limits, chunks, preemption and deadlines, without a model."""

from math import inf

import pytest

from inference.engine.errors import EngineOverloaded, InvalidRequest
from inference.engine.model_status import QUEUE_TIME_BUCKETS_SECONDS
from tests.inference.engine.sequences import end, generation, names, scheduler, step


def test_free_slots_are_filled_in_order_of_arrival() -> None:
    one = scheduler(slots=2)
    for name in "abc":
        one.add(generation(name))
    assert names(step(one).admitted) == ["a", "b"]
    assert (one.running, one.waiting) == (2, 1)


def test_a_freed_slot_is_assigned_at_the_next_step() -> None:
    one = scheduler(slots=1)
    first, second = generation("first"), generation("second")
    one.add(first)
    one.add(second)
    step(one)
    end(one, first)
    assert names(step(one).admitted) == ["second"]
    assert one.find("first") is None


def test_each_decode_gets_a_token_per_step_and_prompts_share_the_rest() -> None:
    one = scheduler(batch_size=8)
    one.add(generation("writes", 1))
    step(one)
    for name, size in [("long", 10), ("short", 5), ("last", 9)]:
        one.add(generation(name, size))
    shares = []
    for _ in range(4):
        plan = step(one)
        shares.append((names(plan.decodes), [(c.sequence.generation.request_id, c.start, c.end) for c in plan.chunks]))
    assert shares == [
        (["writes"], [("long", 0, 8)]),
        (["writes"], [("long", 8, 10), ("short", 0, 5), ("last", 0, 1)]),
        (["writes", "long", "short"], [("last", 1, 9)]),
        (["writes", "long", "short", "last"], []),
    ]


def test_decodes_are_in_the_order_of_their_slots() -> None:
    one = scheduler(slots=3)
    first, second = generation("first", 1), generation("second", 1)
    one.add(first)
    one.add(second)
    step(one)
    end(one, first)
    one.add(generation("third", 1))
    plan = step(one)
    assert [sequence.slot for sequence in plan.decodes] == sorted(sequence.slot for sequence in plan.decodes)
    assert sorted(names(plan.decodes)) == ["second", "third"]


def test_r4_a_queue_full_of_requests_rejects_requests() -> None:
    one = scheduler(slots=2, max_queue=3)
    for place in range(5):
        one.add(generation(str(place)))
    with pytest.raises(EngineOverloaded) as refused:
        one.add(generation("one too many"))
    assert refused.value.details == {"retry_after": 3, "reason": "queue_full"}
    assert one.find("one too many") is None
    step(one)
    with pytest.raises(EngineOverloaded):
        one.add(generation("still one too many"))


def test_a_user_leaves_a_part_of_the_queue_to_others() -> None:
    one = scheduler(slots=1, max_queue=40, max_queue_tokens=10_000)
    one.add(generation("runs", user="many"))
    for place in range(31):
        one.add(generation(f"many {place}", user="many"))
    with pytest.raises(EngineOverloaded, match="Of your requests 31 are waiting"):
        one.add(generation("too many", user="many"))
    for place in range(7):
        one.add(generation(f"few {place}", user="few"))
    with pytest.raises(EngineOverloaded, match="Of your requests 7 are waiting"):
        one.add(generation("too many", user="few"))
    one.add(generation("one", user="another"))


def test_requests_of_several_prompts_are_refused_unless_all_have_places() -> None:
    one = scheduler(slots=2, max_queue=40)
    with pytest.raises(InvalidRequest, match="Send at most 42 prompts"):  # however long they wait
        one.add(generation("too many", places=43))
    for place in range(32):
        one.add(generation(f"many {place}", user="many", places=32 - place))
    with pytest.raises(EngineOverloaded, match="Of your requests 30 are waiting"):
        one.add(generation("too many", user="many", places=2))
    with pytest.raises(EngineOverloaded, match="too many for 11 more"):
        one.add(generation("too many", user="another", places=11))
    one.add(generation("fits", user="another", places=7))


def test_a_user_leaves_a_part_of_the_queues_tokens_to_others() -> None:
    one = scheduler(slots=1, max_queue_tokens=400)
    for name in ("runs", "waits"):
        one.add(generation(name, 310, user="many"))
    with pytest.raises(EngineOverloaded, match="Of your requests 1 are waiting"):
        one.add(generation("too much", 1, user="many"))
    one.add(generation("fits", 60, user="another"))


def test_a_queue_full_of_tokens_rejects_requests_but_always_takes_one() -> None:
    one = scheduler(slots=1, max_queue_tokens=100)
    for name, size in [("runs", 90), ("waits", 90)]:
        one.add(generation(name, size))
    with pytest.raises(EngineOverloaded):
        one.add(generation("too long", 11))
    one.add(generation("fits", 10))
    assert one.waiting == 3


def test_r4_retry_after_follows_the_duration_of_requests() -> None:
    one = scheduler(slots=2, max_queue=100)
    for turn in range(60):
        quick = generation(f"quick {turn}")
        one.add(quick)
        step(one, now=turn * 10.0)
        end(one, quick, now=turn * 10.0 + 8.0)
    for place in range(9):
        one.add(generation(str(place)))
    assert one.retry_after(600.0) == 40
    for place in range(90):
        one.add(generation(f"more {place}"))
    assert one.retry_after(600.0) == 120


def test_r4_rejected_clients_get_staggered_retry_times() -> None:
    one = scheduler(slots=2, max_queue=0)
    first, second = generation("first"), generation("second")
    for running in (first, second):
        one.add(running)
    step(one)
    told = []
    for place in range(6):
        with pytest.raises(EngineOverloaded) as refused:
            one.add(generation(f"refused {place}"))
        told.append(refused.value.details["retry_after"])
    assert told == [1, 1, 2, 2, 3, 3]
    assert one.retry_after(2.5) == 2  # of the six, two are still to come


def test_batch_work_takes_no_queue_places_of_interactive_work() -> None:
    one = scheduler(slots=2, max_queue=2)
    for place in range(4):
        one.add(generation(f"batch {place}", batch=True))
    with pytest.raises(EngineOverloaded):
        one.add(generation("batch too many", batch=True))
    for place in range(4):
        one.add(generation(f"interactive {place}"))
    with pytest.raises(EngineOverloaded):
        one.add(generation("interactive too many"))


def test_interactive_work_precedes_batch_work_and_higher_priority_comes_first() -> None:
    one = scheduler(slots=1)
    wanted = [("urgent", 5), ("early", 0), ("late", 0), ("patient", -3)]
    one.add(generation("batch", batch=True, priority=10))
    for name, priority in [wanted[1], wanted[3], wanted[2], wanted[0]]:
        one.add(generation(name, priority=priority))
    order = []
    while one.waiting:
        plan = step(one)
        order += names(plan.admitted)
        end(one, plan.admitted[0].generation)
    assert order == ["urgent", "early", "late", "patient", "batch"]


@pytest.mark.parametrize("kind", ["batch", "questions"])
def test_p5_other_prompts_come_before_batches_and_questions_which_get_a_quarter_of_a_step(kind: str) -> None:
    one = scheduler(slots=4, batch_size=64)
    large = generation("large", 100)
    setattr(large, kind, True)
    one.add(large)
    assert [chunk.end - chunk.start for chunk in step(one).chunks] == [16]
    one.add(generation("interactive", 60))
    plan = step(one)
    sizes = [(chunk.sequence.generation.request_id, chunk.end - chunk.start) for chunk in plan.chunks]
    assert sizes == [("interactive", 60), ("large", 4)]


def test_an_interactive_sequence_preempts_a_batch_sequence_which_keeps_its_tokens() -> None:
    one = scheduler(slots=2)
    for name in ("long", "short"):
        one.add(generation(name, 20 if name == "long" else 5, batch=True))
    step(one)
    step(one)
    one.add(generation("interactive"))
    plan = step(one)
    assert [(sequence.generation.request_id, slot) for sequence, slot in plan.preempted] == [("short", 1)]
    assert names(plan.admitted) == ["interactive"]
    (preempted,) = one.find("short").choices  # type: ignore[union-attr]
    assert (preempted.slot, preempted.ids[-2:], one.waiting) == (-1, [7, 7], 1)
    end(one, one.find("interactive"))  # type: ignore[arg-type]
    assert names(step(one).admitted) == ["short"]
    assert preempted.computed == len(preempted.ids) - 1
    assert one.counts.preemptions == 1


def test_batch_work_does_not_preempt_batch_work() -> None:
    one = scheduler(slots=1)
    one.add(generation("first", batch=True))
    step(one)
    one.add(generation("second", batch=True, priority=10))
    assert step(one).preempted == []


def test_choices_wait_for_the_prefill_of_the_first_and_copy_it() -> None:
    one = scheduler(slots=4, batch_size=20)
    one.add(generation("three", 30, n=3))
    first, second, third = (step(one) for _ in range(3))
    assert [len(plan.admitted) for plan in (first, second, third)] == [1, 0, 2]
    assert [(copy.source, copy.target, copy.length) for copy in third.copies] == [(0, 1, 29), (0, 2, 29)]
    assert [len(plan.chunks) for plan in (first, second, third)] == [1, 1, 0]
    assert len(third.decodes) == 3


def test_more_choices_than_slots_run_one_after_another() -> None:
    one = scheduler(slots=2)
    many = generation("many", 10, n=8)
    one.add(many)
    ended = 0
    for _ in range(100):
        for sequence in step(one).decodes:
            if len(sequence.ids) == 14:
                one.finish(sequence, 0.0, completed=True)
                ended += 1
    assert ended == 8
    assert (one.running, one.waiting, one.find("many")) == (0, 0, None)


def test_waiting_and_running_requests_expire() -> None:
    one = scheduler(slots=1)
    one.add(generation("runs", deadline=5.0))
    one.add(generation("waits", deadline=3.0))
    one.add(generation("has time", deadline=9.0))
    step(one)
    assert one.expired(2.9) == []
    assert [late.request_id for late in one.expired(3.0)] == ["waits"]
    end(one, one.find("waits"))  # type: ignore[arg-type]
    assert one.expired(4.9) == []
    assert [late.request_id for late in one.expired(100.0)] == ["runs", "has time"]


def test_queue_times_are_counted_once_per_request() -> None:
    one = scheduler(slots=1)
    for name, arrived_at, choices in [("first", 0.0, 2), ("second", 1.0, 1)]:
        made = generation(name, n=choices)
        made.arrived_at = arrived_at
        one.add(made)
    step(one)
    end(one, one.find("first"), now=3.0)  # type: ignore[arg-type]
    assert names(step(one, now=3.0).admitted) == ["second"]
    step(one, now=4.0)
    counts = dict(zip([*QUEUE_TIME_BUCKETS_SECONDS, inf], one.counts.queue_counts, strict=True))
    assert {bound: count for bound, count in counts.items() if count} == {0.01: 1, 2.5: 1}
    assert one.counts.queue_seconds == 2
