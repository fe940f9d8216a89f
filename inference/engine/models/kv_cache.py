"""The slot cache: keys and values of every running request, so that requests join and leave at every step."""

from typing import Any

import torch
from torch import Tensor
from transformers import Cache


class SlotCache:
    """Two tensors a layer, keys and values, each [slots, heads, context, dim]; a slot belongs to one request at a time.

    A layer is allocated when it first writes, because only then its shape is known. It starts as zeros: places that
    the mask hides are still multiplied, by zero, and must hold numbers.
    """

    def __init__(self, slots: int, context_size: int) -> None:
        self.slots = slots
        self.context_size = context_size
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}

    def layer(self, index: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """The tensors of a layer, made to fit `keys` and `values` ([batch, heads, tokens, dim]) the first time."""
        if index not in self._layers:
            self._layers[index] = (self._zeros(keys), self._zeros(values))
        return self._layers[index]

    def _zeros(self, states: Tensor) -> Tensor:
        _, heads, _, dim = states.shape
        return states.new_zeros(self.slots, heads, self.context_size, dim)

    def copy(self, source: int, target: int, length: int) -> None:
        """Gives slot `target` the first `length` places of slot `source`."""
        for pair in self._layers.values():
            for states in pair:
                states[target, :, :length] = states[source, :, :length]

    def clear(self, slot: int | None = None, start: int = 0) -> None:
        """Forgets a slot from place `start` on, or everything. Needed only where something failed, or may have: what it
        left may not be numbers."""
        slots = slice(None) if slot is None else slice(slot, slot + 1)
        for keys, values in self._layers.values():
            keys[slots, :, start:].zero_()
            values[slots, :, start:].zero_()

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for pair in self._layers.values() for tensor in pair)


class PrefillView(Cache):
    """The cache as one forward over a chunk of one prompt sees it: places `start` to `start + tokens` of one slot."""

    def __init__(self, cache: SlotCache, slot: int, start: int) -> None:
        super().__init__(layers=[])
        self._cache = cache
        self._slot = slot
        self._start = start

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Writes the chunk ([1, heads, tokens, dim]) and returns all that the slot holds up to its end."""
        keys, values = self._cache.layer(layer_idx, key_states, value_states)
        slot, end = self._slot, self._start + key_states.shape[2]
        keys[slot, :, self._start : end] = key_states[0]
        values[slot, :, self._start : end] = value_states[0]
        return keys[slot : slot + 1, :, :end], values[slot : slot + 1, :, :end]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self._start


class DecodeView(Cache):
    """The cache as one forward over one token of each of several slots sees it. `slots` are distinct and ascending."""

    def __init__(self, cache: SlotCache, slots: list[int], positions: list[int]) -> None:
        super().__init__(layers=[])
        self._cache = cache
        self._slots = torch.tensor(slots)
        self._positions = torch.tensor(positions)
        self.length = max(positions) + 1
        # Neighbouring slots are read in place; only a gap between them costs a copy.
        adjacent = slots[-1] - slots[0] == len(slots) - 1
        self._rows = slice(slots[0], slots[-1] + 1) if adjacent else self._slots

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Writes a token a slot ([slots, heads, 1, dim]) and returns the slots up to the longest request's end."""
        keys, values = self._cache.layer(layer_idx, key_states, value_states)
        keys[self._slots, :, self._positions] = key_states[:, :, 0]
        values[self._slots, :, self._positions] = value_states[:, :, 0]
        return keys[self._rows, :, : self.length], values[self._rows, :, : self.length]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.length - 1
