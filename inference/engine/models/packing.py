"""Packed weights for the Linear modules of a model that runs through transformers' code.

torch multiplies plain float32 with MKL, which uses only AVX2 on processors other than Intel's. oneDNN takes less than
half the time there, and half of that with int8.
"""

import torch
from torch import Tensor, nn

from inference.engine.models.checkpoint import Matrix
from inference.engine.models.linear import PackedInt8Linear, PackedLinear, packs


class PackedModule(nn.Module):
    """A Linear module on the CPU with constant weights."""

    def __init__(self, linear: nn.Linear, dtype: torch.dtype) -> None:
        super().__init__()
        bias = None if linear.bias is None else linear.bias.detach()
        matrix = Matrix(linear.weight.detach(), bias)
        is_int8 = dtype == torch.int8
        self._linear = PackedInt8Linear(matrix) if is_int8 else PackedLinear(matrix, dtype)

    @property
    def nbytes(self) -> int:
        return self._linear.nbytes

    def forward(self, x: Tensor) -> Tensor:
        return self._linear(x.flatten(0, -2)).view(*x.shape[:-1], -1)


def pack_linears(model: nn.Module, dtype: torch.dtype = torch.float32) -> int:
    """Replace every float32 Linear module of the model by a packed one, if this machine has oneDNN for the type.

    dtype: of the packed weights, float32, bfloat16 or int8. Inputs and outputs stay float32.
    Return the bytes by which the weights are smaller.
    """
    if not packs(dtype):
        return 0
    saved_bytes = 0
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear and child.weight.dtype == torch.float32:
                packed = PackedModule(child, dtype)
                saved_bytes += child.weight.nbytes - packed.nbytes
                setattr(module, name, packed)
    return saved_bytes
