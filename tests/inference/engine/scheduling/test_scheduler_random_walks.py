"""Random walks of the scheduler: slots hold the planned tokens, and every request finishes."""

from random import Random

import pytest

from inference.engine.errors import EngineOverloaded
from inference.engine.scheduling.scheduler import Scheduler, StepPlan
from inference.engine.scheduling.sequence import Generation, Sequence
from tests.inference.engine.sequences import generation, scheduler

BATCH_SIZE = 24


class Slots:
    """The tokens in each slot of a model, updated by plans."""

    def __init__(self) -> None:
        self.held: dict[int, list[int]] = {}

    def run(self, plan: StepPlan) -> list[Sequence]:
        for copy in plan.copies:
            assert len(self.held[copy.source]) >= copy.length
            self.held[copy.target] = self.held[copy.source][: copy.length]
        for slot, start in plan.cleared:
            del self.held[slot][start:]
        sampled = []
        pieces = [(one, one.computed, one.computed + 1) for one in plan.decodes]
        pieces += [(chunk.sequence, chunk.start, chunk.end) for chunk in plan.chunks]
        assert len({one.slot for one, _, _ in pieces}) == len(pieces)
        for one, start, end in pieces:
            held = self.held.setdefault(one.slot, [])
            assert start == one.computed <= len(held)
            assert held[:start] == one.ids[:start]
            held[start:] = one.ids[start:end]
            one.computed = end
            if end == len(one.ids):
                sampled.append(one)
        return sampled


def newcomer(draw: Random, name: str) -> Generation:
    """Return a random generation. Prompts have common prefixes."""
    prompt = [draw.randrange(2) for _ in range(draw.randrange(3))] + [5] * draw.randrange(1, 70)
    return generation(
        name,
        [*prompt, draw.randrange(3)],
        user=draw.choice(["ann", "bob", "cat"]),
        batch=draw.random() < 0.4,
        priority=draw.choice([0, 0, 0, 3]),
        n=draw.choice([1, 1, 1, 2, 5]),
    )


def check(one: Scheduler, plan: StepPlan, slots: int) -> None:
    assert one.running <= slots
    assert sum(chunk.end - chunk.start for chunk in plan.chunks) <= BATCH_SIZE
    assert [sequence.slot for sequence in plan.decodes] == sorted(sequence.slot for sequence in plan.decodes)
    assert all(sequence.slot >= 0 for sequence in plan.admitted)
    everyone = [choice for made in one.generations() for choice in made.choices]
    seated = [choice.slot for choice in everyone if choice.slot >= 0]
    assert len(seated) == len(set(seated)) == one.running
    assert len(everyone) == one.running + one.waiting
    interactive_waits = any(choice.slot < 0 and not choice.generation.batch for choice in everyone)
    batch_runs = any(choice.slot >= 0 and choice.generation.batch for choice in everyone)
    if interactive_waits and batch_runs:  # only choices that wait for another's prompt may
        assert all(
            choice.generation.prefilling for choice in everyone if choice.slot < 0 and not choice.generation.batch
        )


@pytest.mark.parametrize("seed", range(25))
def test_slots_hold_the_planned_tokens_and_every_request_finishes(seed: int) -> None:
    draw = Random(seed)
    slots = draw.randrange(1, 7)
    one, model = scheduler(slots=slots, batch_size=BATCH_SIZE, max_queue=12), Slots()
    written: dict[str, int] = {}
    came = refused = 0
    for turn in range(1500):
        if came < 120 and draw.random() < 0.3:
            came += 1
            try:
                one.add(newcomer(draw, str(came)))
            except EngineOverloaded:
                refused += 1
        plan = one.schedule(float(turn))
        check(one, plan, slots)
        for sequence in model.run(plan):
            sequence.ids.append(draw.randrange(3))
            name = f"{sequence.generation.request_id}.{sequence.choice}"
            written[name] = written.get(name, 0) + 1
            if draw.random() < 0.1:
                one.finish(sequence, float(turn), completed=True)
        if draw.random() < 0.02 and one.generations():
            for choice in list(draw.choice(one.generations()).choices):
                one.finish(choice, float(turn), completed=False)
    for turn in range(3000):
        for sequence in model.run(one.schedule(float(turn))):
            one.finish(sequence, float(turn), completed=True)
    assert (one.running, one.waiting, one.generations()) == (0, 0, [])
    assert came == 120
    assert one.counts.prefix_cache_hits > 0 or slots == 1
    assert sum(written.values()) > 500
