"""Picks tokens from scores over a vocabulary without sorting it: in blocks, so that most of it is only glanced at.

Scores and weights are float32, [rows, vocabulary], contiguous. What a row gets depends on that row alone.
"""

import torch
from torch import Tensor

SIZE = 64
CACHED = 2**18  # so many floats are worked on at a time: what passes over them repeatedly finds them in the cache
FEW = 4  # reading single blocks pays where there are at least so many times more


class Blocks:
    """A vocabulary cut into blocks of `size` neighbouring tokens; the last one may overlap the one before it."""

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary
        self.size = min(SIZE, vocabulary)
        self.count = -(-vocabulary // self.size)
        self._whole = vocabulary // self.size
        self._starts = torch.arange(self.count) * self.size
        self._starts[-1] = vocabulary - self.size
        overlap = self.count * self.size - vocabulary
        self._twice = torch.arange(self.size) < overlap if overlap else None

    def peaks(self, scores: Tensor) -> Tensor:
        """The best score of each block, [rows, blocks]; NaN where a block holds one."""
        whole = self._cut(scores).amax(2)
        if self._twice is None:
            return whole
        return torch.cat([whole, scores[:, self._whole * self.size :].amax(1, keepdim=True)], 1)

    def sums(self, weights: Tensor) -> Tensor:
        """The sum of each block, [rows, blocks] in float64."""
        whole = self._cut(weights).sum(2)
        if self._twice is None:
            return whole.double()
        return torch.cat([whole, weights[:, self._whole * self.size :].sum(1, keepdim=True)], 1).double()

    def _cut(self, values: Tensor) -> Tensor:
        """The whole blocks, [rows, blocks, size]."""
        return values[:, : self._whole * self.size].view(len(values), self._whole, self.size)

    def read(self, values: Tensor, blocks: Tensor, fill: float) -> Tensor:
        """The values in some blocks of each row, [rows, blocks] to [rows, blocks, size]; `fill` where one is twice."""
        rows = torch.arange(0, values.numel(), self.vocabulary)[:, None]
        windows = values.as_strided((values.numel() - self.size + 1, self.size), (1, 1))
        found = windows.index_select(0, (rows + self._starts[blocks]).flatten()).view(*blocks.shape, self.size)
        if self._twice is not None:
            found.masked_fill_((blocks == self.count - 1)[..., None] & self._twice, fill)
        return found

    def tokens(self, blocks: Tensor, places: Tensor) -> Tensor:
        """The ids at `places` of `blocks` laid end to end; both [rows, n]."""
        return self._starts[blocks.gather(1, places // self.size)] + places % self.size


def exponentials(blocks: Blocks, scores: Tensor, highest: Tensor, temperature: Tensor | None) -> Tensor:
    """Makes weights of scores, in place: the best of a row becomes 1, and all are in the ratio of their probabilities.
    highest and temperature: [rows, 1]. Returns their sums by block."""
    sums = []
    for rows in _chunks(scores):
        part = scores[rows]
        part -= highest[rows]
        if temperature is not None:
            part /= temperature[rows]
        sums.append(blocks.sums(part.exp_()))
    return torch.cat(sums)


def keep_above(blocks: Blocks, weights: Tensor, least: Tensor) -> Tensor:
    """Drops the weights that are not above `least`, [rows, 1], in place. Returns the sums by block of what is left."""
    sums = []
    for rows in _chunks(weights):
        part = weights[rows]
        part *= part > least[rows]
        sums.append(blocks.sums(part))
    return torch.cat(sums)


def _chunks(values: Tensor) -> list[slice]:
    step = max(1, CACHED // values.shape[1])
    return [slice(start, start + step) for start in range(0, len(values), step)]


def best(blocks: Blocks, scores: Tensor, peaks: Tensor) -> Tensor:
    """The best token of each row, the first of equals. [rows]"""
    block = peaks.argmax(1, keepdim=True)
    place = blocks.read(scores, block, -torch.inf)[:, 0].argmax(1, keepdim=True)
    return blocks.tokens(block, place)[:, 0]


def ranked(blocks: Blocks, scores: Tensor, peaks: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` best scores of each row, best first, and their tokens; both [rows, count] or the whole vocabulary.

    The k best tokens lie in the k blocks with the best peaks.
    """
    count = min(count, blocks.vocabulary)
    if count * FEW >= blocks.count:
        values, tokens = scores.topk(count)
        return values, tokens
    chosen = peaks.topk(count, sorted=False).indices
    values, places = blocks.read(scores, chosen, -torch.inf).flatten(1).topk(count)
    return values, blocks.tokens(chosen, places)


def drawn(blocks: Blocks, weights: Tensor, sums: Tensor, uniform: Tensor) -> Tensor:
    """A token of each row, each as likely as its weight says. uniform: float64, [rows], 0 to 1. [rows]"""
    running = sums.cumsum(1)
    target = uniform[:, None] * running[:, -1:]
    block = _passed(running, target)
    before = torch.where(block > 0, running.gather(1, (block - 1).clamp_(min=0)), 0.0)
    inside = blocks.read(weights, block, 0.0)[:, 0].double().cumsum(1)
    return blocks.tokens(block, _passed(inside, target - before))[:, 0]


def drawn_from(weights: Tensor, uniform: Tensor) -> Tensor:
    """The place of each row, as likely as its weight says: for few weights, float64, [rows, n]. [rows]"""
    running = weights.cumsum(1)
    return _passed(running, uniform[:, None] * running[:, -1:])[:, 0]


def _passed(running: Tensor, target: Tensor) -> Tensor:
    """Where the running sums pass the target, [rows, 1]. Rounding may put it past the last one that has any weight."""
    place = torch.searchsorted(running, target, right=True)
    return torch.minimum(place, torch.searchsorted(running, running[:, -1:].contiguous()))
