"""A planned step as the model runs it, and what the model's rows tell of prompts that want to be scored."""

import time

import torch
from torch import Tensor

from inference.engine.models import Span
from inference.engine.sampling.logprobs import log_probabilities
from inference.engine.scheduling.output_processor import Describe
from inference.engine.scheduling.scheduler import Chunk, Plan
from inference.engine.scheduling.sequence import Sequence


def to_spans(plan: Plan) -> tuple[list[Sequence], list[Span]]:
    """Who gets a token from this step, and what the model has to run for it; both in the same order."""
    sequences = plan.decodes.copy()
    spans = [Span(one.slot, one.computed, [one.ids[-1]]) for one in sequences]
    for chunk in plan.chunks:
        spans.append(_span(chunk))
        if chunk.completes:
            sequences.append(chunk.sequence)
    return sequences, spans


def note_computed(plan: Plan) -> None:
    """The model has run: the slots hold what was planned."""
    for sequence in plan.decodes:
        sequence.computed += 1
    for chunk in plan.chunks:
        chunk.sequence.computed = chunk.end
    if plan.admitted or plan.chunks:
        _note_prefilled([*plan.admitted, *(chunk.sequence for chunk in plan.chunks)], time.monotonic())


def _note_prefilled(sequences: list[Sequence], now: float) -> None:
    """Those whose prompt may be whole since this step; one of a single token, or cached but for one, has no chunk."""
    for sequence in sequences:
        if sequence.pending == 0 and sequence.generation.prefilled_at is None:
            sequence.generation.prefilled_at = now


def score_prompts(plan: Plan, logits: Tensor, describe: Describe) -> Tensor:
    """Keeps the log probabilities of prompts that want them; returns the rows to be sampled from."""
    if not any(chunk.scored for chunk in plan.chunks):
        return logits
    kept, row = list(range(len(plan.decodes))), len(plan.decodes)
    for chunk in plan.chunks:
        rows = _span(chunk).rows
        if chunk.scored:
            _score(chunk, logits[row : row + rows], describe)
        row += rows
        if chunk.completes:
            kept.append(row - 1)
    return logits[kept]


def _score(chunk: Chunk, logits: Tensor, describe: Describe) -> None:
    """The row of each token tells the log probability of the one behind it."""
    generation, params = chunk.sequence.generation, chunk.sequence.sampling
    behind = generation.prompt_ids[chunk.start + 1 : chunk.end + 1]
    if behind:
        told = log_probabilities(logits[: len(behind)], torch.tensor(behind), params.logprobs or 0)
        for token, (logprob, top) in zip(behind, told, strict=True):
            generation.prompt_logprobs.append(describe(token, logprob, top))


def _span(chunk: Chunk) -> Span:
    sequence = chunk.sequence
    ids = sequence.ids[chunk.start : chunk.end]
    return Span(sequence.slot, chunk.start, ids, every=chunk.scored, wanted=chunk.scored or chunk.completes)
