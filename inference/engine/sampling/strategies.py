"""Sampling strategies, each over all rows of a batch that use it: greedy, multinomial, top-k and nucleus."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

from inference.engine.sampling import SamplingParams
from inference.engine.sampling.vocabulary_blocks import (
    VocabularyBlocks,
    best_tokens,
    draw_columns,
    draw_tokens,
    exponentials,
    keep_above,
    top_tokens,
)

ZERO = torch.tensor(0.0)
SMALL_TOP_K = 64  # larger ones are a group of their own, so that they slow down no other row
MIN_TEMPERATURE = 1e-30  # below it only the best token has any probability


@dataclass(frozen=True)
class StrategyGroup:
    """Rows of a batch that use the same strategy. Parameters are [rows, 1].

    rows: None for the whole batch.
    temperature: None where all are 1.
    """

    rows: Tensor | None
    strategy: "Strategy"
    random: list[Random]
    temperature: Tensor | None
    top_k: Tensor
    top_p: Tensor
    min_p: Tensor

    def choose(self, blocks: VocabularyBlocks, scores: Tensor, peaks: Tensor, highest: Tensor) -> Tensor:
        """Return a token for each row of the group, [rows], from the whole batch's scores."""
        if self.rows is not None:
            scores, peaks, highest = scores[self.rows], peaks[self.rows], highest[self.rows]
        return self.strategy(blocks, self, scores, peaks, highest)


# Takes scores, block peaks and highest scores of a group's rows. It may overwrite the scores.
Strategy = Callable[[VocabularyBlocks, StrategyGroup, Tensor, Tensor, Tensor], Tensor]


def group_by_strategy(params: Sequence[SamplingParams], random: Sequence[Random]) -> list[StrategyGroup]:
    """Return the groups of a batch. Every row is in exactly one."""
    rows_by_kind: dict[tuple[Strategy, bool], list[int]] = {}
    for row, one in enumerate(params):
        rows_by_kind.setdefault(_strategy(one), []).append(row)
    is_whole = len(rows_by_kind) == 1
    return [
        _group(strategy, rows, [params[row] for row in rows], [random[row] for row in rows], is_whole=is_whole)
        for (strategy, _), rows in rows_by_kind.items()
    ]


def _strategy(params: SamplingParams) -> tuple[Strategy, bool]:
    """Return a row's strategy, and whether its top_k is large."""
    if params.temperature < MIN_TEMPERATURE or params.top_k == 1 or params.top_p == 0:
        return _greedy, False
    if params.top_k:
        return _top_k, params.top_k > SMALL_TOP_K
    if params.top_p < 1 or params.min_p:
        return _nucleus, False
    return _multinomial, False


def _group(
    strategy: Strategy, rows: list[int], params: list[SamplingParams], random: list[Random], *, is_whole: bool
) -> StrategyGroup:
    temperature = torch.tensor([[one.temperature] for one in params])
    return StrategyGroup(
        rows=None if is_whole else torch.tensor(rows),
        strategy=strategy,
        random=random,
        temperature=None if bool((temperature == 1).all()) else temperature,
        top_k=torch.tensor([[one.top_k] for one in params]),
        top_p=torch.tensor([[one.top_p] for one in params], dtype=torch.float64),
        min_p=torch.tensor([[one.min_p] for one in params]),
    )


def _uniform(random: Sequence[Random]) -> Tensor:
    return torch.tensor([one.random() for one in random], dtype=torch.float64)


def _greedy(blocks: VocabularyBlocks, group: StrategyGroup, scores: Tensor, peaks: Tensor, highest: Tensor) -> Tensor:
    return best_tokens(blocks, scores, peaks)


def _multinomial(
    blocks: VocabularyBlocks, group: StrategyGroup, scores: Tensor, peaks: Tensor, highest: Tensor
) -> Tensor:
    sums = exponentials(blocks, scores, highest, group.temperature)
    return draw_tokens(blocks, scores, sums, _uniform(group.random))


def _top_k(blocks: VocabularyBlocks, group: StrategyGroup, scores: Tensor, peaks: Tensor, highest: Tensor) -> Tensor:
    """Sample among the k best tokens, cut to the first that cover top_p, cut to those above min_p."""
    values, tokens = top_tokens(blocks, scores, peaks, int(group.top_k.max()))
    values = values - highest
    if group.temperature is not None:
        values /= group.temperature
    weights = values.exp_().double() * (torch.arange(values.shape[1]) < group.top_k)
    running = weights.cumsum(1)
    keep = (running - weights < group.top_p * running[:, -1:]) & (weights >= group.min_p)
    keep[:, 0] = True
    column = draw_columns(weights * keep, _uniform(group.random))
    return tokens.gather(1, column[:, None])[:, 0]


def _nucleus(blocks: VocabularyBlocks, group: StrategyGroup, weights: Tensor, peaks: Tensor, highest: Tensor) -> Tensor:
    """Sample among the smallest set of tokens that covers top_p, cut to those above min_p.

    This is rejection sampling without a sort. A token is rejected if better ones cover top_p already. Then it and all
    that are no better are dropped, which leaves the distribution of the rest unchanged.
    """
    sums = exponentials(blocks, weights, highest, group.temperature)
    covered = group.top_p * sums.sum(1, keepdim=True)
    if bool(group.min_p.any()):
        sums = keep_above(blocks, weights, group.min_p.nextafter(ZERO))
    undecided, random = torch.arange(len(weights)), group.random
    tokens = torch.empty(len(weights), dtype=torch.long)
    while len(undecided):
        chosen = draw_tokens(blocks, weights, sums, _uniform(random))
        sums = keep_above(blocks, weights, weights.gather(1, chosen[:, None]))
        above = sums.sum(1, keepdim=True)
        rejected = ((above >= covered) & (above > 0))[:, 0]
        tokens[undecided[~rejected]] = chosen[~rejected]
        weights, sums, undecided, covered = weights[rejected], sums[rejected], undecided[rejected], covered[rejected]
        random = [one for one, again in zip(random, rejected.tolist(), strict=True) if again]
    return tokens
