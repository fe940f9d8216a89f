"""Attention of the spans of a step, in torch's operations."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from inference.engine.models.architecture import Architecture, Rope
from inference.engine.models.interface import TokenSpan

# Reading an unused slot between used ones costs a third of copying a used one.
MAX_RANGE_PER_SLOT = 3


class SpanBatch:
    """The spans of a step as tensors: spans of one token first, in the order of their slots, then longer ones."""

    def __init__(
        self, spans: Sequence[TokenSpan], context: int, rotations: dict[Rope, Tensor], of: Architecture
    ) -> None:
        self.decodes = sorted((span for span in spans if len(span.ids) == 1), key=lambda span: span.slot)
        self.longer = [span for span in spans if len(span.ids) > 1]
        self._ordered = [*self.decodes, *self.longer]
        self._context, self._rotations = context, rotations
        self._of = of
        self._inputs: LayerInputs | None = None
        self.ids = [token for span in self._ordered for token in span.ids]
        self.positions = [position for span in self._ordered for position in range(span.start, span.end)]
        self.slots = [span.slot for span in self._ordered for _ in span.ids]

    def inputs(self) -> "LayerInputs":
        """Return the inputs of torch's layers, on the CPU."""
        if self._inputs is None:
            positions = torch.tensor(self.positions)
            parts: list[DecodeAttention | PrefillAttention] = (
                [DecodeAttention.of(self.decodes, self._of)] if self.decodes else []
            )
            parts += [PrefillAttention.of(span, self._of) for span in self.longer]
            cache_rows = torch.tensor(self.slots) * self._context + positions
            rotations = {rope: angles[positions] for rope, angles in self._rotations.items()}
            self._inputs = LayerInputs(cache_rows, rotations, parts, self._context)
        return self._inputs

    def logit_rows(self, spans: Sequence[TokenSpan]) -> list[int]:
        """Return the rows that get logits, in the order of `spans`."""
        ends, end = {}, 0
        for span in self._ordered:
            end += len(span.ids)
            ends[span.slot] = end
        return [row for span in spans for row in range(ends[span.slot] - span.rows, ends[span.slot])]


@dataclass(frozen=True)
class LayerInputs:
    """Inputs of all layers of one device: rows of the cache, rotations [rows, 1, rotated / 2], and attention parts."""

    cache_rows: Tensor
    rotations: dict[Rope, Tensor]
    parts: "list[DecodeAttention | PrefillAttention]"
    context: int

    def to(self, device: torch.device) -> "LayerInputs":
        parts = [part.to(device) for part in self.parts]
        rotations = {rope: angles.to(device) for rope, angles in self.rotations.items()}
        return LayerInputs(self.cache_rows.to(device), rotations, parts, self.context)


@dataclass(frozen=True)
class DecodeAttention:
    """Attention of one token in each of several slots.

    slots: the slots to read, which may include unused ones.
    used: indices of the used ones among them.
    masks: by the layer's window, [slots, keys], minus infinity at masked keys.
    """

    slots: slice | Tensor
    used: Tensor
    rows: int
    masks: dict[int, Tensor]

    @classmethod
    def of(cls, spans: Sequence[TokenSpan], architecture: Architecture) -> "DecodeAttention":
        slots = [span.slot for span in spans]
        first, last = slots[0], slots[-1]
        ends = torch.tensor([span.end for span in spans])
        used = torch.arange(len(slots))
        read: slice | Tensor = torch.tensor(slots)
        if last - first < MAX_RANGE_PER_SLOT * len(slots):
            read, used = slice(first, last + 1), torch.tensor(slots) - first
            # Unused slots attend to their first position, and the result is dropped.
            ends = torch.ones(last - first + 1, dtype=torch.long).index_copy_(0, used, ends)
        distances = ends[:, None] - 1 - torch.arange(int(ends.max()))
        return cls(read, used, len(slots), window_masks(distances, architecture))

    def to(self, device: torch.device) -> "DecodeAttention":
        slots = self.slots.to(device) if isinstance(self.slots, Tensor) else self.slots
        return DecodeAttention(slots, self.used.to(device), self.rows, _moved(self.masks, device))

    def attend(self, queries: Tensor, cache: Tensor, of: Architecture, window: int) -> Tensor:
        """Return the attention of queries [rows, kv_heads, group, dim], with a key head's group as the length."""
        mask = self.masks[window]
        states = cache[self.slots, : mask.shape[-1]]
        keys, values = states.unbind(2)
        if len(states) != self.rows:
            queries = queries.new_zeros(len(states), *queries.shape[1:]).index_copy_(0, self.used, queries)
        attended = _attention(queries, keys.transpose(1, 2), values.transpose(1, 2), mask[:, None, None], of)
        if len(states) != self.rows:
            attended = attended[self.used]
        return attended.flatten(1)


@dataclass(frozen=True)
class PrefillAttention:
    """Attention of several tokens of one slot. masks: by the layer's window, [tokens, keys]."""

    slot: int
    rows: int
    masks: dict[int, Tensor]

    @classmethod
    def of(cls, span: TokenSpan, architecture: Architecture) -> "PrefillAttention":
        distances = torch.arange(span.start, span.end)[:, None] - torch.arange(span.end)
        return cls(span.slot, len(span.ids), window_masks(distances, architecture))

    def to(self, device: torch.device) -> "PrefillAttention":
        return PrefillAttention(self.slot, self.rows, _moved(self.masks, device))

    def attend(self, queries: Tensor, cache: Tensor, of: Architecture, window: int) -> Tensor:
        """Return the attention of queries [rows, kv_heads, group, dim], with the group as a batch of shared keys."""
        mask = self.masks[window]
        keys, values = cache[self.slot, : mask.shape[-1]].unbind(1)
        group = queries.shape[2]
        attended = _attention(
            queries.permute(2, 1, 0, 3),
            keys.transpose(0, 1).expand(group, -1, -1, -1),
            values.transpose(0, 1).expand(group, -1, -1, -1),
            mask,
            of,
        )
        return attended.permute(2, 1, 0, 3).flatten(1)


def _attention(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor, of: Architecture) -> Tensor:
    scale = 1 / math.sqrt(of.query_scalar)
    if not of.attention_cap:
        return functional.scaled_dot_product_attention(queries, keys, values, mask, scale=scale)
    scores = capped(queries @ keys.transpose(-1, -2) * scale, of.attention_cap) + mask
    return scores.softmax(-1) @ values


def capped(numbers: Tensor, cap: float) -> Tensor:
    """Return the numbers between -cap and cap, those near 0 nearly as they are."""
    return (numbers / cap).tanh_().mul_(cap)


def window_masks(distances: Tensor, of: Architecture) -> dict[int, Tensor]:
    """Return the mask of each window: minus infinity at keys after the token or before its window, and else 0.

    distances: from each key to each token, [tokens, keys].
    """
    masks = {}
    for window in set(of.windows):
        hidden = (distances < 0) | (distances >= window) if window else distances < 0
        masks[window] = torch.zeros(hidden.shape, device=hidden.device).masked_fill_(hidden, -torch.inf)
    return masks


def _moved(masks: dict[int, Tensor], device: torch.device) -> dict[int, Tensor]:
    return {window: mask.to(device) for window, mask in masks.items()}
