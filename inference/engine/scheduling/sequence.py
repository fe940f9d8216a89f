"""Accepted requests and their choices, which the engine loop works on. No tensor."""

from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING

from inference.engine.outputs import RequestTimings, TokenLogprob, Usage
from inference.engine.sampling import SamplingParams

if TYPE_CHECKING:
    from inference.engine.sampling.grammars import TokenConstraint
    from inference.engine.scheduling.answers import AnswerProcessor
    from inference.engine.scheduling.output_processor import OutputProcessor


@dataclass(eq=False, slots=True, kw_only=True)
class Generation:
    """An accepted request: the state that its choices share. Times are of the monotonic clock.

    choices: those that have not ended.
    places: of the queue, that it and the requests right after it need; 0 if it is one of those.
    questions: it scores the answers to questions, which are long and many.
    arrival_order: rank of the request's arrival among all requests.
    echo: the prompt's text, if outputs begin with it.
    prompt_only: the choices end before their first token.
    wants_prompt_logprobs: the whole prompt is computed at least once, for its log probabilities.
    prompt_logprobs: those of the prompt tokens computed so far. The first token's is None.
    started_at, prefilled_at: when the first choice got a slot, and when the prompt was computed.
    cached_tokens: prompt tokens that the first choice found in the prefix cache.
    reasoning_tokens: tokens of reasoning of the choices that have ended.
    """

    request_id: str
    prompt_ids: list[int]
    user: str = ""
    places: int = 1
    batch: bool = False
    questions: bool = False
    priority: int = 0
    arrived_at: float = 0.0
    deadline: float = inf
    echo: str | None = None
    prompt_only: bool = False
    wants_prompt_logprobs: bool = False
    arrival_order: int = 0
    choices: list["Sequence"] = field(default_factory=list)
    prompt_logprobs: list[TokenLogprob] = field(default_factory=list)
    started_at: float | None = None
    prefilled_at: float | None = None
    traceparent: str | None = None
    cached_tokens: int = 0
    completion_tokens: int = 0
    reasoning_tokens: int = 0

    def usage(self, now: float) -> Usage:
        """Return the token counts of a request that ends now, and its timings if it is traced."""
        timings = RequestTimings(self.arrived_at, self.started_at, self.prefilled_at, now) if self.traceparent else None
        return Usage(len(self.prompt_ids), self.completion_tokens, self.cached_tokens, timings, self.reasoning_tokens)

    @property
    def shares_steps(self) -> bool:
        """Return whether its prompts get a part of a step only."""
        return self.batch or self.questions

    @property
    def needs_prompt_logprobs(self) -> bool:
        return self.wants_prompt_logprobs and len(self.prompt_logprobs) < len(self.prompt_ids)

    @property
    def prefilling(self) -> bool:
        """Return whether a choice is computing the prompt. The others wait, and copy it afterwards."""
        computed = [choice.computed for choice in self.choices if choice.slot >= 0]
        return bool(computed) and max(computed) < len(self.prompt_ids)


@dataclass(eq=False, slots=True, kw_only=True)
class Sequence:
    """One choice of a request. Its slot holds the keys and values of the first `computed` of `ids`.

    ids: prompt and output tokens.
    slot: -1 while it waits.
    admitted_at: when it got its first slot.
    is_preemptible: it may lose its slot to another, and continue later.
    """

    generation: Generation
    choice: int
    sampling: SamplingParams
    output_processor: "OutputProcessor | AnswerProcessor"
    ids: list[int]
    constraint: "TokenConstraint | None" = None
    slot: int = -1
    computed: int = 0
    admitted_at: float | None = None
    is_preemptible: bool = True

    @property
    def pending(self) -> int:
        """Return the number of tokens to run before the next one can be sampled: 1 while decoding."""
        return len(self.ids) - self.computed
