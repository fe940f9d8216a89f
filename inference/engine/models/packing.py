"""Packed weights for the Linear modules of a model that runs through transformers' code.

torch multiplies plain float32 with MKL, which uses only AVX2 on processors other than Intel's. oneDNN takes less than
half the time there with AVX-512, but a tenth more with AVX2 alone. int8 takes half to three quarters of either.
"""

import threading

import torch
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from inference.engine.models.checkpoint import Matrix
from inference.engine.models.layers.linear import PackedInt8Linear, PackedLinear, QuantizedRows, packs


class _LastInput(threading.local):
    """The last input of a model's int8 modules: queries, keys and values are of one, which is quantized once.

    Threads run batches of their own.
    """

    def __init__(self) -> None:
        self._tensor: Tensor | None = None
        self._rows: QuantizedRows | None = None

    def quantize(self, x: Tensor) -> QuantizedRows:
        if self._rows is None or self._tensor is not x:
            self._tensor, self._rows = x, QuantizedRows(x.flatten(0, -2))
        return self._rows


class PackedModule(nn.Module):
    """A Linear module on the CPU with constant weights, or a Conv1D, which is one with its weights transposed."""

    def __init__(self, linear: nn.Linear | Conv1D, dtype: torch.dtype, last_input: _LastInput) -> None:
        super().__init__()
        bias = None if linear.bias is None else linear.bias.detach()
        weight = linear.weight.detach()
        matrix = Matrix(weight.t().contiguous() if isinstance(linear, Conv1D) else weight, bias)
        is_int8 = dtype == torch.int8
        self._linear = PackedInt8Linear(matrix) if is_int8 else PackedLinear(matrix, dtype)
        self._last_input = last_input

    @property
    def nbytes(self) -> int:
        return self._linear.nbytes

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(self._linear, PackedInt8Linear):
            product = self._linear.multiply(self._last_input.quantize(x))
        else:
            product = self._linear(x.flatten(0, -2))
        return product.view(*x.shape[:-1], -1)


def pack_linears(model: nn.Module, dtype: torch.dtype = torch.float32) -> int:
    """Replace every float32 Linear and Conv1D module of the model by a packed one, if this machine has oneDNN for it.

    dtype: of the packed weights, float32, bfloat16 or int8. Inputs and outputs stay float32. Where MKL is faster for
        float32, the modules stay as they are.
    Return the bytes by which the weights are smaller.
    """
    if not packs(dtype) or (dtype == torch.float32 and is_mkl_faster()):
        return 0
    saved_bytes, last_input = 0, _LastInput()
    # A float32 copy of an output matrix that is the embedding, too, would take twice the memory.
    tied = {id(module.weight) for module in model.modules() if isinstance(module, nn.Embedding)}
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if not isinstance(child, nn.Linear | Conv1D) or type(child) not in (nn.Linear, Conv1D):
                continue
            if child.weight.dtype == torch.float32 and (dtype != torch.float32 or id(child.weight) not in tied):
                packed = PackedModule(child, dtype, last_input)
                saved_bytes += child.weight.nbytes - packed.nbytes
                setattr(module, name, packed)
    return saved_bytes


def is_mkl_faster() -> bool:
    """Return whether MKL multiplies many rows of float32 faster than oneDNN on this processor."""
    has_mkl: bool = torch.backends.mkl.is_available()  # type: ignore[no-untyped-call]
    return has_mkl and torch.backends.cpu.get_cpu_capability() == "AVX2"
