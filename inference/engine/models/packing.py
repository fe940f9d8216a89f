"""Packed weights in place of the Linear modules of a model that runs through transformers' code.

Plain float32 products go to MKL, which keeps to AVX2 on processors that are not Intel's; oneDNN's take less than half
the time there.
"""

import torch
from torch import Tensor, nn

from inference.engine.models.checkpoint import Matrix
from inference.engine.models.linear import PackedLinear


class PackedModule(nn.Module):
    """A Linear module on the CPU in float32, whose weight cannot be changed any more."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        bias = None if linear.bias is None else linear.bias.detach()
        self._linear = PackedLinear(Matrix(linear.weight.detach(), bias), torch.float32)

    def forward(self, x: Tensor) -> Tensor:
        return self._linear(x)


def pack_linears(model: nn.Module) -> None:
    """Replaces every float32 Linear module of the model by a packed one, where this machine has oneDNN."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear and child.weight.dtype == torch.float32:
                setattr(module, name, PackedModule(child))
