"""The KV cache in slots, so that sequences join and leave at every step, and the memory of caches."""

import ctypes
import math
from mmap import MADV_DONTNEED, MAP_ANONYMOUS, MAP_PRIVATE, PAGESIZE, mmap
from typing import Any

import torch
from torch import Tensor
from transformers import Cache

_MADV_NOHUGEPAGE = 15  # of Linux. A huge page would be taken whole for the first position of a sequence.


class LazyZeros:
    """A tensor of zeros on the CPU. Its pages take memory from their first write until they are cleared."""

    def __init__(self, *shape: int, dtype: torch.dtype = torch.float32) -> None:
        self.nbytes = dtype.itemsize * math.prod(shape)
        self._map = mmap(-1, self.nbytes, flags=MAP_PRIVATE | MAP_ANONYMOUS)
        self._map.madvise(_MADV_NOHUGEPAGE)
        self._bytes = torch.frombuffer(self._map, dtype=torch.uint8)
        self.tensor: Tensor = self._bytes.view(dtype).view(shape)

    def clear(self, start: int, end: int) -> None:
        """Set the bytes from `start` to `end` to zeros. The system gets whole pages back."""
        first, last = -(-start // PAGESIZE) * PAGESIZE, end // PAGESIZE * PAGESIZE
        if first >= last:
            self._bytes[start:end].zero_()
            return
        self._bytes[start:first].zero_()
        self._map.madvise(MADV_DONTNEED, first, last - first)
        self._bytes[last:end].zero_()

    @property
    def resident_bytes(self) -> int:
        """Return the bytes that are in memory now."""
        pages = (ctypes.c_ubyte * -(-self.nbytes // PAGESIZE))()
        status = ctypes.CDLL(None).mincore(ctypes.c_void_p(self.tensor.data_ptr()), ctypes.c_size_t(self.nbytes), pages)
        if status:
            return self.nbytes
        return PAGESIZE * bytes(pages).count(1)  # of each page, only the lowest bit is defined to be used


class SlotCache:
    """Keys and values of each layer, two tensors [slots, heads, context, dim]. A slot has one sequence at a time.

    A layer is allocated at its first write, when its shape is known. It starts as zeros: masked positions still enter
    the products, multiplied by zero, so they must be finite.
    """

    def __init__(self, slots: int, context_size: int) -> None:
        self.slots = slots
        self.context_size = context_size
        self._layers: dict[int, tuple[Tensor, Tensor]] = {}

    def layer(self, index: int, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Return the tensors of a layer, allocated by the shape of `keys` and `values`, [batch, heads, tokens, dim]."""
        if index not in self._layers:
            self._layers[index] = (self._zeros(keys), self._zeros(values))
        return self._layers[index]

    def _zeros(self, states: Tensor) -> Tensor:
        _, heads, _, dim = states.shape
        return states.new_zeros(self.slots, heads, self.context_size, dim)

    def copy(self, source: int, target: int, length: int) -> None:
        """Copy the first `length` positions of slot `source` to slot `target`."""
        for pair in self._layers.values():
            for states in pair:
                states[target, :, :length] = states[source, :, :length]

    def clear(self, slot: int | None = None, start: int = 0) -> None:
        """Set a slot to zeros from position `start` on, or all slots: a failed step may leave NaN or infinity."""
        slots = slice(None) if slot is None else slice(slot, slot + 1)
        for keys, values in self._layers.values():
            keys[slots, :, start:].zero_()
            values[slots, :, start:].zero_()

    @property
    def nbytes(self) -> int:
        return sum(tensor.nbytes for pair in self._layers.values() for tensor in pair)


class SpanView(Cache):
    """The cache of a forward pass over spans of as many tokens each, in slots that are distinct and ascending."""

    def __init__(self, cache: SlotCache, slots: list[int], starts: list[int], tokens: int) -> None:
        super().__init__(layers=[])
        self._cache = cache
        self._slots, self._tokens = torch.tensor(slots), tokens
        self.positions = torch.tensor(starts)[:, None] + torch.arange(tokens)
        self.length = max(starts) + tokens
        # Adjacent slots are read in place; others are copied.
        adjacent = slots[-1] - slots[0] == len(slots) - 1
        self._rows = slice(slots[0], slots[-1] + 1) if adjacent else self._slots

    def update(
        self, key_states: Tensor, value_states: Tensor, layer_idx: int, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        """Write the spans, [spans, heads, tokens, dim]. Return the slots up to the end of the longest sequence."""
        keys, values = self._cache.layer(layer_idx, key_states, value_states)
        keys[self._slots[:, None], :, self.positions] = key_states.transpose(1, 2)
        values[self._slots[:, None], :, self.positions] = value_states.transpose(1, 2)
        return keys[self._rows, :, : self.length], values[self._rows, :, : self.length]

    def get_seq_length(self, layer_idx: int = 0) -> int:
        return self.length - self._tokens
