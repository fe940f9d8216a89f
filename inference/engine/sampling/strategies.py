"""The ways in which tokens are chosen, each over all rows of a batch that ask for it."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

import torch
from torch import Tensor

from inference.engine.sampling import SamplingParams
from inference.engine.sampling.vocabulary_blocks import (
    Blocks,
    best,
    drawn,
    drawn_from,
    exponentials,
    keep_above,
    ranked,
)

NOTHING = torch.tensor(0.0)
SMALL_TOP_K = 64  # rows with a larger one are ranked apart, so that they cost only themselves
LEAST_TEMPERATURE = 1e-30  # below it there is nothing left to draw


@dataclass(frozen=True)
class Group:
    """Rows of a batch whose tokens are chosen in the same way. `rows` is None where it is the whole batch."""

    rows: Tensor | None
    way: "Way"
    random: list[Random]
    temperature: Tensor | None  # this and the next three [rows, 1]; None where all are 1
    top_k: Tensor
    top_p: Tensor
    min_p: Tensor

    def choose(self, blocks: Blocks, scores: Tensor, peaks: Tensor, highest: Tensor) -> Tensor:
        """A token for each row of the group, out of the whole batch's scores. [rows]"""
        if self.rows is not None:
            scores, peaks, highest = scores[self.rows], peaks[self.rows], highest[self.rows]
        return self.way(blocks, self, scores, peaks, highest)


# Scores, peaks and the highest scores of a group's rows. The scores may be written over.
Way = Callable[[Blocks, Group, Tensor, Tensor, Tensor], Tensor]


def grouped(params: Sequence[SamplingParams], random: Sequence[Random]) -> list[Group]:
    """Every row of a batch in one group."""
    kinds: dict[tuple[Way, bool], list[int]] = {}
    for row, one in enumerate(params):
        kinds.setdefault(_way(one), []).append(row)
    return [
        _group(way, rows, [params[row] for row in rows], [random[row] for row in rows], whole=len(kinds) == 1)
        for (way, _), rows in kinds.items()
    ]


def _way(params: SamplingParams) -> tuple[Way, bool]:
    if params.temperature < LEAST_TEMPERATURE or params.top_k == 1 or params.top_p == 0:
        return _greedy, False
    if params.top_k:
        return _of_the_best, params.top_k > SMALL_TOP_K
    if params.top_p < 1 or params.min_p:
        return _of_the_nucleus, False
    return _of_all, False


def _group(way: Way, rows: list[int], params: list[SamplingParams], random: list[Random], *, whole: bool) -> Group:
    temperature = torch.tensor([[one.temperature] for one in params])
    return Group(
        rows=None if whole else torch.tensor(rows),
        way=way,
        random=random,
        temperature=None if bool((temperature == 1).all()) else temperature,
        top_k=torch.tensor([[one.top_k] for one in params]),
        top_p=torch.tensor([[one.top_p] for one in params], dtype=torch.float64),
        min_p=torch.tensor([[one.min_p] for one in params]),
    )


def _uniform(random: Sequence[Random]) -> Tensor:
    return torch.tensor([one.random() for one in random], dtype=torch.float64)


def _greedy(blocks: Blocks, group: Group, scores: Tensor, peaks: Tensor, highest: Tensor) -> Tensor:
    return best(blocks, scores, peaks)


def _of_all(blocks: Blocks, group: Group, scores: Tensor, peaks: Tensor, highest: Tensor) -> Tensor:
    sums = exponentials(blocks, scores, highest, group.temperature)
    return drawn(blocks, scores, sums, _uniform(group.random))


def _of_the_best(blocks: Blocks, group: Group, scores: Tensor, peaks: Tensor, highest: Tensor) -> Tensor:
    """Draws among the k best tokens, of those among the first that cover top_p, of those among what min_p leaves."""
    values, tokens = ranked(blocks, scores, peaks, int(group.top_k.max()))
    values = values - highest
    if group.temperature is not None:
        values /= group.temperature
    weights = values.exp_().double() * (torch.arange(values.shape[1]) < group.top_k)
    running = weights.cumsum(1)
    keep = (running - weights < group.top_p * running[:, -1:]) & (weights >= group.min_p)
    keep[:, 0] = True
    place = drawn_from(weights * keep, _uniform(group.random))
    return tokens.gather(1, place[:, None])[:, 0]


def _of_the_nucleus(blocks: Blocks, group: Group, weights: Tensor, peaks: Tensor, highest: Tensor) -> Tensor:
    """Draws among the smallest set of tokens that covers top_p, of those among what min_p leaves.

    Nothing is sorted. A token is drawn from all; if those above it cover top_p already, it is refused, and with it all
    that are no better, which leaves the distribution of the rest as it was.
    """
    sums = exponentials(blocks, weights, highest, group.temperature)
    allowed = group.top_p * sums.sum(1, keepdim=True)
    if bool(group.min_p.any()):
        sums = keep_above(blocks, weights, group.min_p.nextafter(NOTHING))
    left, random = torch.arange(len(weights)), group.random
    tokens = torch.empty(len(weights), dtype=torch.long)
    while len(left):
        chosen = drawn(blocks, weights, sums, _uniform(random))
        sums = keep_above(blocks, weights, weights.gather(1, chosen[:, None]))
        above = sums.sum(1, keepdim=True)
        refused = ((above >= allowed) & (above > 0))[:, 0]
        tokens[left[~refused]] = chosen[~refused]
        weights, sums, left, allowed = weights[refused], sums[refused], left[refused], allowed[refused]
        random = [one for one, again in zip(random, refused.tolist(), strict=True) if again]
    return tokens
