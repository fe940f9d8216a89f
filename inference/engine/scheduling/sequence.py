"""What the loop works on: accepted requests, and their choices on the way. Plain Python, no tensor."""

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from inference.engine.outputs import RequestTimings, TokenLogprob, Usage
from inference.engine.sampling import SamplingParams

if TYPE_CHECKING:
    from inference.engine.sampling.grammars import TokenConstraint
    from inference.engine.scheduling.output_processor import Writer


@dataclass(eq=False, slots=True, kw_only=True)
class Generation:
    """One accepted request: what its choices share.

    arrived_at, deadline: on the monotonic clock. order: when it came, among all. choices: those that have not ended.
    echo: the prompt's text, if outputs are to begin with it.
    scored: the request wants log probabilities of its prompt, so all of it is computed, at least once.
    prompt_logprobs: they, as far as the prompt is computed; the first token has none from the beginning.
    started_at: when the first choice got a slot. cached_tokens: what that one did not have to compute.
    prefilled_at: when the prompt was computed. traceparent: as in the request.
    """

    request_id: str
    prompt_ids: list[int]
    user: str = ""
    batch: bool = False
    priority: int = 0
    arrived_at: float = 0.0
    deadline: float = inf
    echo: str | None = None
    scored: bool = False
    order: int = 0
    choices: list["Sequence"] = field(default_factory=list)
    prompt_logprobs: list[TokenLogprob] = field(default_factory=list)
    started_at: float | None = None
    prefilled_at: float | None = None
    traceparent: str | None = None
    cached_tokens: int = 0
    completion_tokens: int = 0

    def usage(self, now: float) -> Usage:
        """Of one that has just ended."""
        stages = RequestTimings(self.arrived_at, self.started_at, self.prefilled_at, now) if self.traceparent else None
        return Usage(len(self.prompt_ids), self.completion_tokens, self.cached_tokens, stages)

    @property
    def needs_scores(self) -> bool:
        return self.scored and len(self.prompt_logprobs) < len(self.prompt_ids)

    @property
    def prefilling(self) -> bool:
        """A choice is computing the prompt, and the others may take it over when it is done."""
        computed = [one.computed for one in self.choices if one.slot >= 0]
        return bool(computed) and max(computed) < len(self.prompt_ids)


@dataclass(eq=False, slots=True, kw_only=True)
class Sequence:
    """One choice. The keys and values of the first `computed` of `ids`, prompt and output, are in its slot.

    slot: -1 while it waits. admitted_at: when it got its first one.
    """

    generation: Generation
    choice: int
    sampling: SamplingParams
    writer: "Writer"
    ids: list[int]
    constraint: "TokenConstraint | None" = None
    slot: int = -1
    computed: int = 0
    admitted_at: float | None = None

    @property
    def pending(self) -> int:
        """So many tokens go into the model before the next one can be sampled: one for who writes."""
        return len(self.ids) - self.computed
