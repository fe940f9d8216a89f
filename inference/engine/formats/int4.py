"""Four bits for weights that a file does not have quantized, in GGUF's blocks, which the compiled kernels read."""

from typing import Protocol

import numpy as np
import torch
from gguf import GGMLQuantizationType as Kind
from gguf.quants import dequantize, quantize
from torch import Tensor

BLOCK_INPUTS = 32
# By the last part of a matrix's name. Embedding and output matrix have eight bits, because they matter most.
_KINDS = {"_proj.weight": Kind.Q4_0, "embed_tokens.weight": Kind.Q8_0, "lm_head.weight": Kind.Q8_0}


class FloatTensors(Protocol):
    """A source of a model's tensors, some of which may be quantized already."""

    def __contains__(self, name: str) -> bool: ...

    def shape(self, name: str) -> list[int]: ...

    def tensor(self, name: str, rows: int | None = None) -> Tensor: ...

    def kind(self, name: str) -> str | None: ...

    def blocks(self, name: str, rows: int | None = None) -> tuple[str, Tensor] | None: ...

    def low_rank(self, name: str) -> None: ...


class Int4Tensors:
    """The tensors of a model with its matrices quantized: Q4_0, the embedding and the output matrix Q8_0.

    A matrix whose rows are not whole blocks stays as it is, and so does one that the file has quantized.
    """

    def __init__(self, base: FloatTensors) -> None:
        self._base = base

    def __contains__(self, name: str) -> bool:
        return name in self._base

    def shape(self, name: str) -> list[int]:
        return self._base.shape(name)

    def tensor(self, name: str, rows: int | None = None) -> Tensor:
        """Return a tensor, or its first rows, with the rounding of its quantization."""
        tensor = self._base.tensor(name, rows)
        kind = self._own_kind(name)
        if kind is None or not tensor.is_floating_point():  # other types are refused as those of the base alone
            return tensor
        return torch.from_numpy(dequantize(_quantized(tensor, kind), kind))

    def kind(self, name: str) -> str | None:
        kind = self._own_kind(name)
        return self._base.kind(name) if kind is None else kind.name

    def blocks(self, name: str, rows: int | None = None) -> tuple[str, Tensor] | None:
        kind = self._own_kind(name)
        if kind is None:
            return self._base.blocks(name, rows)
        return kind.name, torch.from_numpy(_quantized(self._base.tensor(name, rows), kind))

    def low_rank(self, name: str) -> None:
        """Return None: the tensors are as the files have them."""

    def _own_kind(self, name: str) -> Kind | None:
        """Return the quantization that this adds, or None."""
        kind = next((kind for ending, kind in _KINDS.items() if name.endswith(ending)), None)
        if kind is None or self._base.kind(name) or self._base.shape(name)[-1] % BLOCK_INPUTS:
            return None
        return kind


def _quantized(tensor: Tensor, kind: Kind) -> "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]":
    blocks: np.ndarray[tuple[int, ...], np.dtype[np.uint8]] = quantize(tensor.float().contiguous().numpy(), kind)
    return blocks
