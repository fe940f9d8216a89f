"""Packed weights for the Linear modules of a model that runs through transformers' code.

torch multiplies plain float32 with MKL, which uses only AVX2 on processors other than Intel's. oneDNN takes less than
half the time there.
"""

import torch
from torch import Tensor, nn

from inference.engine.models.checkpoint import Matrix
from inference.engine.models.linear import PackedLinear


class PackedModule(nn.Module):
    """A Linear module on the CPU in float32 with constant weights."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        bias = None if linear.bias is None else linear.bias.detach()
        self._linear = PackedLinear(Matrix(linear.weight.detach(), bias), torch.float32)

    def forward(self, x: Tensor) -> Tensor:
        return self._linear(x)


def pack_linears(model: nn.Module) -> None:
    """Replace every float32 Linear module of the model by a packed one, if this machine has oneDNN."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear and child.weight.dtype == torch.float32:
                setattr(module, name, PackedModule(child))
