"""Four bits for weights that a file does not have quantized, in GGUF's blocks, which the compiled kernels read."""

from typing import Protocol

import numpy as np
import torch
from gguf import GGMLQuantizationType as Kind
from gguf.quants import dequantize, quantize
from torch import Tensor

from inference.engine.errors import ModelLoadFailed
from inference.engine.formats.block_records import BLOCK_INPUTS, BLOCK_KINDS

FLOATS = (torch.float32, torch.bfloat16, torch.float16)
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

    A matrix whose rows are not whole blocks stays as it is, and so does one in blocks that the kernels read; others are
    dequantized first. Raises ModelLoadFailed for weights of another type.
    """

    def __init__(self, base: FloatTensors) -> None:
        self._base = base

    def __contains__(self, name: str) -> bool:
        return name in self._base

    def shape(self, name: str) -> list[int]:
        return self._base.shape(name)

    def tensor(self, name: str, rows: int | None = None) -> Tensor:
        """Return a tensor, or its first rows, with the rounding of its quantization."""
        kind = self._own_kind(name)
        if kind is None:
            return self._base.tensor(name, rows)
        return torch.from_numpy(dequantize(self._quantized(name, kind, rows), kind))

    def kind(self, name: str) -> str | None:
        kind = self._own_kind(name)
        return self._base.kind(name) if kind is None else kind.name

    def blocks(self, name: str, rows: int | None = None) -> tuple[str, Tensor] | None:
        kind = self._own_kind(name)
        if kind is None:
            return self._base.blocks(name, rows)
        return kind.name, torch.from_numpy(self._quantized(name, kind, rows))

    def low_rank(self, name: str) -> None:
        """Return None: the tensors are as the files have them."""

    def _own_kind(self, name: str) -> Kind | None:
        """Return the quantization that this adds, or None."""
        kind = next((kind for ending, kind in _KINDS.items() if name.endswith(ending)), None)
        if kind is None or self._base.kind(name) in BLOCK_KINDS or self._base.shape(name)[-1] % BLOCK_INPUTS:
            return None
        return kind

    def _quantized(self, name: str, kind: Kind, rows: int | None) -> "np.ndarray[tuple[int, ...], np.dtype[np.uint8]]":
        tensor = self._base.tensor(name, rows)
        if tensor.dtype not in FLOATS:
            raise ModelLoadFailed(f"{name} must be float32, bfloat16 or float16, not {tensor.dtype}.")
        blocks: np.ndarray[tuple[int, ...], np.dtype[np.uint8]] = quantize(tensor.float().contiguous().numpy(), kind)
        return blocks
