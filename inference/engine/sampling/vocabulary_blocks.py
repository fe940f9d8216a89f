"""Sampling primitives over a vocabulary in blocks, so that no step sorts it or reads most of it twice.

Scores and weights are float32, [rows, vocabulary], contiguous. A row's result depends on that row alone.
"""

import torch
from torch import Tensor

BLOCK_TOKENS = 64
CACHED_FLOATS = 2**18  # processed at a time, so that repeated passes find them in the processor's cache
MIN_BLOCK_RATIO = 4  # reading single blocks pays if the vocabulary has at least this many times more blocks


class VocabularyBlocks:
    """A vocabulary as blocks of `size` neighbouring tokens. The last one may overlap the one before it."""

    def __init__(self, vocabulary: int) -> None:
        self.vocabulary = vocabulary
        self.size = min(BLOCK_TOKENS, vocabulary)
        self.count = -(-vocabulary // self.size)
        self._whole = vocabulary // self.size
        self._starts = torch.arange(self.count) * self.size
        self._starts[-1] = vocabulary - self.size
        overlap = self.count * self.size - vocabulary
        self._overlapping = torch.arange(self.size) < overlap if overlap else None

    def peaks(self, scores: Tensor) -> Tensor:
        """Return the best score of each block, [rows, blocks]; NaN where a block holds one."""
        whole = self._whole_blocks(scores).amax(2)
        if self._overlapping is None:
            return whole
        return torch.cat([whole, scores[:, self._whole * self.size :].amax(1, keepdim=True)], 1)

    def sums(self, weights: Tensor) -> Tensor:
        """Return the sum of each block, [rows, blocks] in float64."""
        whole = self._whole_blocks(weights).sum(2)
        if self._overlapping is None:
            return whole.double()
        return torch.cat([whole, weights[:, self._whole * self.size :].sum(1, keepdim=True)], 1).double()

    def _whole_blocks(self, values: Tensor) -> Tensor:
        """Return a view of the blocks without the last partial one, [rows, blocks, size]."""
        return values[:, : self._whole * self.size].view(len(values), self._whole, self.size)

    def read(self, values: Tensor, blocks: Tensor, fill: float) -> Tensor:
        """Return the values of some blocks of each row, [rows, blocks, size]. blocks: [rows, blocks].

        Tokens that the block before the last one has already are `fill`.
        """
        rows = torch.arange(0, values.numel(), self.vocabulary)[:, None]
        windows = values.as_strided((values.numel() - self.size + 1, self.size), (1, 1))
        found = windows.index_select(0, (rows + self._starts[blocks]).flatten()).view(*blocks.shape, self.size)
        if self._overlapping is not None:
            found.masked_fill_((blocks == self.count - 1)[..., None] & self._overlapping, fill)
        return found

    def tokens(self, blocks: Tensor, columns: Tensor) -> Tensor:
        """Return the token ids at `columns` of the concatenated `blocks`; both [rows, n]."""
        return self._starts[blocks.gather(1, columns // self.size)] + columns % self.size


def exponentials(blocks: VocabularyBlocks, scores: Tensor, highest: Tensor, temperature: Tensor | None) -> Tensor:
    """Turn scores into weights in place: the best of a row becomes 1. Return their sums by block.

    highest, temperature: [rows, 1].
    """
    sums = []
    for rows in _chunks(scores):
        part = scores[rows]
        part -= highest[rows]
        if temperature is not None:
            part /= temperature[rows]
        sums.append(blocks.sums(part.exp_()))
    return torch.cat(sums)


def keep_above(blocks: VocabularyBlocks, weights: Tensor, threshold: Tensor) -> Tensor:
    """Set weights to 0 in place unless they are above `threshold`, [rows, 1]. Return the sums by block."""
    sums = []
    for rows in _chunks(weights):
        part = weights[rows]
        part *= part > threshold[rows]
        sums.append(blocks.sums(part))
    return torch.cat(sums)


def _chunks(values: Tensor) -> list[slice]:
    step = max(1, CACHED_FLOATS // values.shape[1])
    return [slice(start, start + step) for start in range(0, len(values), step)]


def best_tokens(blocks: VocabularyBlocks, scores: Tensor, peaks: Tensor) -> Tensor:
    """Return the best token of each row, [rows]; the first of equals."""
    block = peaks.argmax(1, keepdim=True)
    column = blocks.read(scores, block, -torch.inf)[:, 0].argmax(1, keepdim=True)
    return blocks.tokens(block, column)[:, 0]


def top_tokens(blocks: VocabularyBlocks, scores: Tensor, peaks: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the `count` best scores of each row, best first, and their tokens; both [rows, count].

    Count is at most the vocabulary's size. The k best tokens lie in the k blocks with the best peaks.
    """
    count = min(count, blocks.vocabulary)
    if count * MIN_BLOCK_RATIO >= blocks.count:
        values, tokens = scores.topk(count)
        return values, tokens
    chosen = peaks.topk(count, sorted=False).indices
    values, columns = blocks.read(scores, chosen, -torch.inf).flatten(1).topk(count)
    return values, blocks.tokens(chosen, columns)


def draw_tokens(blocks: VocabularyBlocks, weights: Tensor, sums: Tensor, uniform: Tensor) -> Tensor:
    """Return a token of each row with probability proportional to its weight, [rows].

    uniform: float64 random numbers from 0 to 1, [rows].
    """
    running = sums.cumsum(1)
    target = uniform[:, None] * running[:, -1:]
    block = _first_above(running, target)
    before = torch.where(block > 0, running.gather(1, (block - 1).clamp_(min=0)), 0.0)
    inside = blocks.read(weights, block, 0.0)[:, 0].double().cumsum(1)
    return blocks.tokens(block, _first_above(inside, target - before))[:, 0]


def draw_columns(weights: Tensor, uniform: Tensor) -> Tensor:
    """Return a column of each row with probability proportional to its weight, [rows]. For few float64 columns."""
    running = weights.cumsum(1)
    return _first_above(running, uniform[:, None] * running[:, -1:])[:, 0]


def _first_above(running: Tensor, target: Tensor) -> Tensor:
    """Return the first column whose running sum is above the target, [rows, 1].

    Rounding may put the target above all sums; then it is the last column that has any weight.
    """
    column = torch.searchsorted(running, target, right=True)
    return torch.minimum(column, torch.searchsorted(running, running[:, -1:].contiguous()))
