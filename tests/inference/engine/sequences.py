"""Generations for tests of the scheduler, without an engine."""

from math import inf

from inference.engine.sampling import SamplingParams
from inference.engine.scheduling.output_processor import OutputProcessor
from inference.engine.scheduling.scheduler import Scheduler, StepPlan
from inference.engine.scheduling.sequence import Generation, Sequence
from inference.engine.text.detokenizer import TextStream


def scheduler(slots: int = 4, batch_size: int = 512, max_queue: int = 100, max_queue_tokens: int = 10**6) -> Scheduler:
    return Scheduler(slots=slots, batch_size=batch_size, max_queue=max_queue, max_queue_tokens=max_queue_tokens)


def generation(
    name: str,
    prompt: list[int] | int = 3,
    *,
    user: str = "",
    places: int = 1,
    batch: bool = False,
    priority: int = 0,
    deadline: float = inf,
    n: int = 1,
) -> Generation:
    """Return a generation. prompt: ids, or their number."""
    ids = [hash((name, place)) for place in range(prompt)] if isinstance(prompt, int) else prompt
    made = Generation(
        request_id=name, prompt_ids=ids, user=user, places=places, batch=batch, priority=priority, deadline=deadline
    )
    made.choices = [_choice(made, place) for place in range(n)]
    return made


def _choice(made: Generation, place: int) -> Sequence:
    sampling = SamplingParams()
    output_processor = OutputProcessor(
        request_id=made.request_id,
        choice=place,
        sampling=sampling,
        max_tokens=10**6,
        eos_ids=frozenset(),
        text=TextStream(lambda ids: ""),
        describe=lambda token, logprob, top: NotImplemented,
    )
    return Sequence(
        generation=made, choice=place, sampling=sampling, output_processor=output_processor, ids=list(made.prompt_ids)
    )


def step(scheduler: Scheduler, now: float = 0.0) -> StepPlan:
    """Plan a step and apply it as the engine does. Every sampled token is 7."""
    plan = scheduler.schedule(now)
    for sequence in plan.decodes:
        sequence.computed += 1
        sequence.ids.append(7)
    for chunk in plan.chunks:
        chunk.sequence.computed = chunk.end
        if chunk.completes:
            chunk.sequence.ids.append(7)
    return plan


def names(sequences: list[Sequence]) -> list[str]:
    return [sequence.generation.request_id for sequence in sequences]


def end(scheduler: Scheduler, one: Generation, now: float = 0.0) -> None:
    for choice in list(one.choices):
        scheduler.finish(choice, now, completed=True)
