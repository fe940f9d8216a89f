"""The interface between a decoder and the layers on one device."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from inference.engine.models.architecture import Architecture, Rope
from inference.engine.models.checkpoint import LayerWeights, Matrix
from inference.engine.models.interface import TokenSpan
from inference.engine.models.layers.attention import LayerInputs
from inference.engine.models.layers.linear import Linear

CPU = torch.device("cpu")


@dataclass(frozen=True)
class Placement:
    """The device of a layer, and the function that makes its matrices there."""

    device: torch.device
    linear: Callable[[Matrix], Linear]


class CachedLayer(Protocol):
    """A layer with its part of the cache, [slots * context, 2 * kv_heads, head_dim]."""

    cache: Tensor


class StepBatch(Protocol):
    """The rows of a step: spans of one token first, then longer ones."""

    decodes: list[TokenSpan]
    longer: list[TokenSpan]
    positions: list[int]
    slots: list[int]

    def inputs(self) -> LayerInputs:
        """Return the inputs of torch's layers, on the CPU."""


class Stack(Protocol):
    """The last layers of a decoder, with its norm and head, on one device.

    kernels, cache_dtype: see `LoadReport`.
    min_recorded_keys: keys of the smallest recorded step.
    copies_keys: a recorded step copies the keys that it reads.
    embeds: the embedding goes to the device, too, if all layers are there.
    """

    device: torch.device
    kernels: str
    cache_dtype: str
    min_recorded_keys: int
    copies_keys: bool
    embeds: bool

    @property
    def layers(self) -> Sequence[CachedLayer]: ...

    @property
    def weight_bytes(self) -> int: ...

    def add_layer(self, weights: LayerWeights, index: int) -> None:
        """Add the next layer, which is number `index` of the model."""

    def add_head(self, norm: Tensor, head: Matrix) -> None:
        """Add what follows the last layer."""

    def run(self, rows: Tensor, batch: StepBatch, logit_rows: list[int]) -> Tensor:
        """Return the logits of some rows. rows: float32 [rows, hidden], on the device."""

    def decode(self, rows: Tensor, slots: Tensor, positions: Tensor, keys: int) -> Tensor:
        """Return the logits of one token per slot. No operation waits for the device."""


class MakeStack(Protocol):
    """Makes a stack without layers. rotations: complex numbers [context, 1, rotated / 2]."""

    def __call__(self, of: Architecture, /, *, rotations: dict[Rope, Tensor]) -> Stack: ...
