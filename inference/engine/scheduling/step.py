"""The model's inputs of a planned step, and prompt log probabilities from its logits."""

import time

import torch
from torch import Tensor

from inference.engine.models import TokenSpan
from inference.engine.sampling.logprobs import log_probabilities
from inference.engine.scheduling.output_processor import DescribeToken
from inference.engine.scheduling.scheduler import Chunk, StepPlan
from inference.engine.scheduling.sequence import Sequence


def build_spans(plan: StepPlan) -> tuple[list[Sequence], list[TokenSpan]]:
    """Return the sequences that get a token from this step, and the spans to run; both in the same order."""
    sequences = plan.decodes.copy()
    spans = [TokenSpan(one.slot, one.computed, [one.ids[-1]]) for one in sequences]
    for chunk in plan.chunks:
        spans.append(_span(chunk))
        if chunk.completes:
            sequences.append(chunk.sequence)
    return sequences, spans


def record_computed(plan: StepPlan) -> None:
    """Record that the model has run the step: slots hold the planned tokens."""
    for sequence in plan.decodes:
        sequence.computed += 1
    for chunk in plan.chunks:
        chunk.sequence.computed = chunk.end
    if plan.admitted or plan.chunks:
        # A prompt of a single token, or cached but for one, has no chunk.
        _record_prefilled([*plan.admitted, *(chunk.sequence for chunk in plan.chunks)], time.monotonic())


def _record_prefilled(sequences: list[Sequence], now: float) -> None:
    for sequence in sequences:
        if sequence.pending == 0 and sequence.generation.prefilled_at is None:
            sequence.generation.prefilled_at = now


def collect_prompt_logprobs(plan: StepPlan, logits: Tensor, describe: DescribeToken) -> Tensor:
    """Add log probabilities to the prompts that want them. Return the rows of `logits` to sample from."""
    if not any(chunk.all_logits for chunk in plan.chunks):
        return logits
    sampled_rows, row = list(range(len(plan.decodes))), len(plan.decodes)
    for chunk in plan.chunks:
        rows = _span(chunk).rows
        if chunk.all_logits:
            _add_logprobs(chunk, logits[row : row + rows], describe)
        row += rows
        if chunk.completes:
            sampled_rows.append(row - 1)
    return logits[sampled_rows]


def _add_logprobs(chunk: Chunk, logits: Tensor, describe: DescribeToken) -> None:
    """Add the log probabilities of a chunk. The row of each token predicts the next one."""
    generation, params = chunk.sequence.generation, chunk.sequence.sampling
    predicted = generation.prompt_ids[chunk.start + 1 : chunk.end + 1]
    if predicted:
        logprobs = log_probabilities(logits[: len(predicted)], torch.tensor(predicted), params.logprobs or 0)
        for token, (logprob, top) in zip(predicted, logprobs, strict=True):
            generation.prompt_logprobs.append(describe(token, logprob, top))


def _span(chunk: Chunk) -> TokenSpan:
    sequence = chunk.sequence
    ids = sequence.ids[chunk.start : chunk.end]
    needs_logits = chunk.all_logits or chunk.completes
    return TokenSpan(sequence.slot, chunk.start, ids, all_logits=chunk.all_logits, needs_logits=needs_logits)
