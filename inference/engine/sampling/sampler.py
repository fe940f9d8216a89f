"""Chooses the next token of every running request at once. Parameters and random numbers are each request's own."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import isfinite
from random import Random
from typing import NamedTuple

import torch
from torch import Tensor

from inference.engine.sampling import SamplingParams
from inference.engine.sampling.grammars import Masks, TokenConstraint
from inference.engine.sampling.logprobs import Ranked, log_probabilities
from inference.engine.sampling.penalties import Histories, History, PenaltyRows
from inference.engine.sampling.strategies import Group, grouped
from inference.engine.sampling.vocabulary_blocks import Blocks

SEED_MASK = 2**64 - 1


class Sampled(NamedTuple):
    """A chosen token; its log probability and the best ones' if the request asked for them.

    complete: the text has the form that it has to have, and nothing can follow.
    failure: the form was lost, for this reason; the token means nothing.
    broken: the row's logits held a NaN or an infinity; the token means nothing.
    """

    token: int
    logprob: float | None = None
    top: Ranked = ()
    complete: bool = False
    failure: str | None = None
    broken: bool = False


@dataclass(eq=False)
class _Request:
    """Who samples in a slot: all that its choices hang on, but what the histories hold."""

    params: SamplingParams
    random: Random
    constraint: TokenConstraint | None
    generated: int = 0

    @property
    def end_is_barred(self) -> bool:
        return self.params.ignore_eos or self.generated < self.params.min_tokens


@dataclass(frozen=True)
class Parked:
    """What a request takes along when it loses its slot, and brings back to the next one."""

    request: _Request
    history: History | None


@dataclass(frozen=True)
class _Batch:
    """How the rows of one list of slots are sampled: kept as long as the same requests come again."""

    slots: list[int]
    blocks: Blocks
    ends: Tensor
    requests: list[_Request]
    groups: list[Group]
    penalties: PenaltyRows | None
    biased: list[tuple[int, Tensor, Tensor]]
    barring: list[int]  # this and the next three: rows
    told: list[int]
    remembering: list[int]
    constrained: list[int]


class Sampler:
    """Holds, for each slot, its request's parameters, generator, and the tokens that it has seen.

    The order is penalties, `logit_bias`, what the form allows, temperature, top_k, top_p, min_p. Numbers drawn by the
    request's own generator pick from what is left, so neighbours in the batch change nothing. Used from one thread.
    """

    def __init__(self, *, slots: int, context_size: int, eos_ids: frozenset[int]) -> None:
        self._requests: list[_Request | None] = [None] * slots
        self._histories = Histories(slots=slots, context_size=context_size)
        self._eos_ids = sorted(eos_ids)
        self._masks = Masks()
        self._batch: _Batch | None = None

    def admit(
        self, slot: int, params: SamplingParams, prompt_ids: list[int], constraint: TokenConstraint | None = None
    ) -> None:
        """Begins a request in a slot; forgets who was there before. The constraint becomes the sampler's own."""
        seed = None if params.seed is None else params.seed & SEED_MASK
        self._requests[slot] = _Request(params, Random(seed), constraint)  # noqa: S311 (sampling, no secret)
        if Histories.wanted(params):
            self._histories.admit(slot, prompt_ids)
        self._batch = None

    def release(self, slot: int) -> None:
        """Forgets who is in a slot."""
        self._requests[slot] = None
        self._batch = None

    def park(self, slot: int) -> Parked:
        """Takes a request out of its slot, to go on in another one as if nothing had been."""
        request = self._request(slot)
        parked = Parked(request, self._histories.park(slot) if Histories.wanted(request.params) else None)
        self.release(slot)
        return parked

    def resume(self, slot: int, parked: Parked) -> None:
        """Brings a parked request to a slot."""
        self._requests[slot] = parked.request
        if parked.history is not None:
            self._histories.resume(slot, parked.history)
        self._batch = None

    @torch.inference_mode()
    def sample(self, logits: Tensor, slots: list[int]) -> list[Sampled]:
        """One token for each of `slots` from its row of `logits`, float32, [len(slots), vocabulary], which is written
        over."""
        with _one_thread():
            return self._sample(logits.contiguous(), self._planned(slots, logits.shape[1]))

    def _request(self, slot: int) -> _Request:
        request = self._requests[slot]
        assert request is not None, f"nobody is in slot {slot}"
        return request

    def _planned(self, slots: list[int], vocabulary: int) -> _Batch:
        batch = self._batch
        if batch is None or batch.slots != slots or batch.blocks.vocabulary != vocabulary:
            ends = torch.tensor([token for token in self._eos_ids if token < vocabulary], dtype=torch.long)
            requests = [self._request(slot) for slot in slots]
            batch = self._batch = _plan(list(slots), requests, Blocks(vocabulary), ends)
        return batch

    def _sample(self, scores: Tensor, batch: _Batch) -> list[Sampled]:
        raw = scores[batch.told] if batch.told else scores
        self._adjust(scores, batch)
        peaks = batch.blocks.peaks(scores)
        broken = [row for row, peak in enumerate(peaks.amax(1).tolist()) if not isfinite(peak)]
        if broken:
            scores[broken], peaks[broken] = 0.0, 0.0  # numbers again, or the others of its group could not be chosen
        chosen = _choose(scores, peaks, batch)
        tokens: list[int] = chosen.tolist()
        for request in batch.requests:
            request.generated += 1
        for row in batch.remembering:
            self._histories.add(batch.slots[row], tokens[row])
        sampled = [Sampled(token) for token in tokens]
        if batch.told:
            for row, told in zip(batch.told, _tell(raw, chosen, batch), strict=True):
                sampled[row] = told
        for row in batch.constrained:
            sampled[row] = _kept_to(sampled[row], batch.requests[row])
        for row in broken:
            sampled[row] = Sampled(tokens[row], broken=True)
        return sampled

    def _adjust(self, scores: Tensor, batch: _Batch) -> None:
        """Penalties, biases and bars, in place."""
        if batch.penalties is not None:
            self._histories.penalise(scores, batch.penalties)
        for row, tokens, biases in batch.biased:
            scores[row].index_add_(0, tokens, biases)
        barred = [row for row in batch.barring if batch.requests[row].end_is_barred]
        if barred and len(batch.ends):
            scores[torch.tensor(barred)[:, None], batch.ends] = -torch.inf
        if batch.constrained:
            self._constrain(scores, batch, set(barred))

    def _constrain(self, scores: Tensor, batch: _Batch, barred: set[int]) -> None:
        constraints = [one for row in batch.constrained if (one := batch.requests[row].constraint)]
        allowed = self._masks.allowed(constraints, scores.shape[1])
        for row, constraint, tokens in zip(batch.constrained, constraints, allowed, strict=True):
            if constraint.failure:
                continue
            if row in barred and not tokens.index_fill(0, batch.ends, False).any():
                scores[row, batch.ends] = 0.0  # where the form leaves nothing but the end, it is not barred
            scores[row].masked_fill_(~tokens, -torch.inf)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Many small operations: where the cores are shared with others, threads would wait for each other at every one."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


def _plan(slots: list[int], requests: list[_Request], blocks: Blocks, ends: Tensor) -> _Batch:
    params = [request.params for request in requests]
    remembering = [row for row, one in enumerate(params) if Histories.wanted(one)]
    biased = []
    for row, one in enumerate(params):
        # A model may have fewer logits than its tokenizer has tokens.
        if bias := {token: value for token, value in one.logit_bias.items() if token < blocks.vocabulary}:
            biased.append((row, torch.tensor(list(bias)), torch.tensor(list(bias.values()), dtype=torch.float32)))
    return _Batch(
        slots=slots,
        blocks=blocks,
        ends=ends,
        requests=requests,
        groups=grouped(params, [request.random for request in requests]),
        penalties=PenaltyRows.of({row: (slots[row], params[row]) for row in remembering}),
        biased=biased,
        barring=[row for row, one in enumerate(params) if one.ignore_eos or one.min_tokens],
        told=[row for row, one in enumerate(params) if one.logprobs is not None],
        remembering=remembering,
        constrained=[row for row, request in enumerate(requests) if request.constraint],
    )


def _choose(scores: Tensor, peaks: Tensor, batch: _Batch) -> Tensor:
    highest = peaks.amax(1, keepdim=True)
    # A group that is not the whole batch works on a copy of its rows.
    parts = [(group.rows, group.choose(batch.blocks, scores, peaks, highest)) for group in batch.groups]
    if parts[0][0] is None:
        return parts[0][1]
    tokens = torch.empty(len(scores), dtype=torch.long)
    for rows, chosen in parts:
        tokens[rows] = chosen
    return tokens


def _tell(raw: Tensor, chosen: Tensor, batch: _Batch) -> Iterator[Sampled]:
    asked = [batch.requests[row].params.logprobs or 0 for row in batch.told]
    tokens = chosen[batch.told]
    told = log_probabilities(raw, tokens, max(asked))
    for token, count, (logprob, top) in zip(tokens.tolist(), asked, told, strict=True):
        yield Sampled(token, logprob, top[:count])


def _kept_to(sampled: Sampled, request: _Request) -> Sampled:
    """Tells the constraint of its token, and what has become of it."""
    constraint = request.constraint
    assert constraint is not None
    if not constraint.failure:
        constraint.accept(sampled.token)
    return sampled._replace(complete=constraint.complete, failure=constraint.failure)
