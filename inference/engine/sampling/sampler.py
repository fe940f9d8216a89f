"""The sampler: the next token of every running sequence, each with its own parameters and random numbers."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from random import Random
from typing import NamedTuple

import torch
from torch import Tensor

from inference.engine.sampling import SamplingParams
from inference.engine.sampling.grammars import TokenConstraint, TokenMasks
from inference.engine.sampling.logprobs import RankedTokens, log_probabilities
from inference.engine.sampling.penalties import PenaltyRows, TokenHistories, TokenHistory
from inference.engine.sampling.strategies import StrategyGroup, group_by_strategy
from inference.engine.sampling.vocabulary_blocks import VocabularyBlocks

SEED_MASK = 2**64 - 1


class SampledToken(NamedTuple):
    """A sampled token, with its log probability and the most probable tokens if they are requested.

    complete: the text satisfies its constraint and nothing can follow.
    failure: why the constraint cannot be followed any more; the token is meaningless.
    finite: False if the row's logits held a NaN or an infinity; the token is meaningless.
    """

    token: int
    logprob: float | None = None
    top: RankedTokens = ()
    complete: bool = False
    failure: str | None = None
    finite: bool = True


@dataclass(eq=False)
class _SlotState:
    """Sampling state of the sequence in a slot, apart from its token history."""

    params: SamplingParams
    random: Random
    constraint: TokenConstraint | None
    generated: int = 0

    @property
    def forbids_end(self) -> bool:
        return self.params.ignore_eos or self.generated < self.params.min_tokens


@dataclass(frozen=True)
class PreemptedSampling:
    """Sampling state that a preempted sequence brings back when it resumes."""

    state: _SlotState
    history: TokenHistory | None


@dataclass(frozen=True)
class _SamplingBatch:
    """Sampling of one list of slots, prepared once and reused while the same sequences run.

    The last four lists are rows: with a possible ban of end tokens, log probabilities, histories, and constraints.
    """

    slots: list[int]
    blocks: VocabularyBlocks
    end_ids: Tensor
    states: list[_SlotState]
    groups: list[StrategyGroup]
    penalties: PenaltyRows | None
    biases: list[tuple[int, Tensor, Tensor]]
    end_rows: list[int]
    logprob_rows: list[int]
    history_rows: list[int]
    constrained_rows: list[int]


class Sampler:
    """Parameters, random generator and token history of each slot. Not thread-safe.

    The order of application is penalties, `logit_bias`, constraint, temperature, top_k, top_p, min_p. Each sequence
    draws from its own generator, so its neighbours in the batch change nothing.
    """

    def __init__(self, *, slots: int, context_size: int, eos_ids: frozenset[int]) -> None:
        self._states: list[_SlotState | None] = [None] * slots
        self._histories = TokenHistories(slots=slots, context_size=context_size)
        self._eos_ids = sorted(eos_ids)
        self._masks = TokenMasks()
        self._batch: _SamplingBatch | None = None

    def admit(
        self, slot: int, params: SamplingParams, prompt_ids: list[int], constraint: TokenConstraint | None = None
    ) -> None:
        """Start a sequence in a slot. The sampler advances the constraint."""
        seed = None if params.seed is None else params.seed & SEED_MASK
        self._states[slot] = _SlotState(params, Random(seed), constraint)  # noqa: S311 (sampling, no secret)
        if TokenHistories.needed(params):
            self._histories.admit(slot, prompt_ids)
        self._batch = None

    def release(self, slot: int) -> None:
        """Forget the sequence in a slot."""
        self._states[slot] = None
        self._batch = None

    def preempt(self, slot: int) -> PreemptedSampling:
        """Release a slot and return its state, with which the sequence resumes in any slot."""
        state = self._state(slot)
        preempted = PreemptedSampling(
            state, self._histories.preempt(slot) if TokenHistories.needed(state.params) else None
        )
        self.release(slot)
        return preempted

    def resume(self, slot: int, preempted: PreemptedSampling) -> None:
        """Continue a preempted sequence in a slot."""
        self._states[slot] = preempted.state
        if preempted.history is not None:
            self._histories.resume(slot, preempted.history)
        self._batch = None

    @torch.inference_mode()
    def sample(self, logits: Tensor, slots: list[int]) -> list[SampledToken]:
        """Return one token per slot from its row of logits.

        logits: float32 [len(slots), vocabulary]; overwritten.
        """
        with _one_thread():
            return self._sample(logits.contiguous(), self._prepared(slots, logits.shape[1]))

    def _state(self, slot: int) -> _SlotState:
        state = self._states[slot]
        assert state is not None, f"slot {slot} is empty"
        return state

    def _prepared(self, slots: list[int], vocabulary: int) -> _SamplingBatch:
        batch = self._batch
        if batch is None or batch.slots != slots or batch.blocks.vocabulary != vocabulary:
            end_ids = torch.tensor([token for token in self._eos_ids if token < vocabulary], dtype=torch.long)
            states = [self._state(slot) for slot in slots]
            batch = self._batch = _prepare(list(slots), states, VocabularyBlocks(vocabulary), end_ids)
        return batch

    def _sample(self, scores: Tensor, batch: _SamplingBatch) -> list[SampledToken]:
        raw = scores[batch.logprob_rows] if batch.logprob_rows else scores
        self._adjust(scores, batch)
        peaks = batch.blocks.peaks(scores)
        not_finite = [row for row, peak in enumerate(peaks.amax(1).tolist()) if not isfinite(peak)]
        if not_finite:
            scores[not_finite], peaks[not_finite] = 0.0, 0.0  # or the other rows of its group could not be sampled
        chosen = _choose(scores, peaks, batch)
        tokens: list[int] = chosen.tolist()
        for state in batch.states:
            state.generated += 1
        for row in batch.history_rows:
            self._histories.add(batch.slots[row], tokens[row])
        sampled = [SampledToken(token) for token in tokens]
        if batch.logprob_rows:
            for row, token in zip(batch.logprob_rows, _with_logprobs(raw, chosen, batch), strict=True):
                sampled[row] = token
        for row in batch.constrained_rows:
            sampled[row] = _advance_constraint(sampled[row], batch.states[row])
        for row in not_finite:
            sampled[row] = SampledToken(tokens[row], finite=False)
        return sampled

    def _adjust(self, scores: Tensor, batch: _SamplingBatch) -> None:
        """Apply penalties, biases and constraints in place."""
        if batch.penalties is not None:
            self._histories.penalise(scores, batch.penalties)
        for row, tokens, biases in batch.biases:
            scores[row].index_add_(0, tokens, biases)
        endless = [row for row in batch.end_rows if batch.states[row].forbids_end]
        if endless and len(batch.end_ids):
            scores[torch.tensor(endless)[:, None], batch.end_ids] = -torch.inf
        if batch.constrained_rows:
            self._constrain(scores, batch, set(endless))

    def _constrain(self, scores: Tensor, batch: _SamplingBatch, endless: set[int]) -> None:
        constraints = [one for row in batch.constrained_rows if (one := batch.states[row].constraint)]
        allowed = self._masks.allowed(constraints, scores.shape[1])
        for row, constraint, tokens in zip(batch.constrained_rows, constraints, allowed, strict=True):
            if constraint.failure:
                continue
            constraint.lean(scores[row], tokens)
            if row in endless and not tokens.index_fill(0, batch.end_ids, False).any():
                scores[row, batch.end_ids] = 0.0  # the constraint allows nothing but the end
            scores[row].masked_fill_(~tokens, -torch.inf)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Run torch on one thread. Sampling is many small operations, and on shared cores threads wait at each of them."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _prepare(slots: list[int], states: list[_SlotState], blocks: VocabularyBlocks, end_ids: Tensor) -> _SamplingBatch:
    params = [state.params for state in states]
    history_rows = [row for row, one in enumerate(params) if TokenHistories.needed(one)]
    biases = []
    for row, one in enumerate(params):
        # A model may have fewer logits than its tokenizer has tokens.
        if bias := {token: value for token, value in one.logit_bias.items() if token < blocks.vocabulary}:
            biases.append((row, torch.tensor(list(bias)), torch.tensor(list(bias.values()), dtype=torch.float32)))
    return _SamplingBatch(
        slots=slots,
        blocks=blocks,
        end_ids=end_ids,
        states=states,
        groups=group_by_strategy(params, [state.random for state in states]),
        penalties=PenaltyRows.of({row: (slots[row], params[row]) for row in history_rows}),
        biases=biases,
        end_rows=[row for row, one in enumerate(params) if one.ignore_eos or one.min_tokens],
        logprob_rows=[row for row, one in enumerate(params) if one.logprobs is not None],
        history_rows=history_rows,
        constrained_rows=[row for row, state in enumerate(states) if state.constraint],
    )


def _choose(scores: Tensor, peaks: Tensor, batch: _SamplingBatch) -> Tensor:
    highest = peaks.amax(1, keepdim=True)
    # A group that is not the whole batch works on a copy of its rows.
    parts = [(group.rows, group.choose(batch.blocks, scores, peaks, highest)) for group in batch.groups]
    if parts[0][0] is None:
        return parts[0][1]
    tokens = torch.empty(len(scores), dtype=torch.long)
    for rows, chosen in parts:
        tokens[rows] = chosen
    return tokens


def _with_logprobs(raw: Tensor, chosen: Tensor, batch: _SamplingBatch) -> Iterator[SampledToken]:
    """Yield the tokens of `logprob_rows` with their log probabilities. raw: these rows before any adjustment."""
    counts = [batch.states[row].params.logprobs or 0 for row in batch.logprob_rows]
    tokens = chosen[batch.logprob_rows]
    logprobs = log_probabilities(raw, tokens, max(counts))
    for token, count, (logprob, top) in zip(tokens.tolist(), counts, logprobs, strict=True):
        yield SampledToken(token, logprob, top[:count])


def _advance_constraint(sampled: SampledToken, state: _SlotState) -> SampledToken:
    """Advance the constraint by a token. Return the token with the constraint's status."""
    constraint = state.constraint
    assert constraint is not None
    if not constraint.failure:
        constraint.accept(sampled.token)
    return sampled._replace(complete=constraint.complete, failure=constraint.failure)
