"""Weights as oneDNN wants them, in place of the Linear modules of a model that runs through transformers' code.

Plain float32 products go to MKL, which keeps to AVX2 on processors that are not Intel's; oneDNN's take less than half
the time there, and packing once saves it from packing at every call.
"""

import torch
from torch import Tensor, nn

ROWS = 1024  # of an input, for which the layout is chosen; any other number works too


class PackedLinear(nn.Module):
    """A Linear module on the CPU in float32, whose weight cannot be changed any more."""

    def __init__(self, linear: nn.Linear) -> None:
        super().__init__()
        self._packed = torch.ops.mkldnn._reorder_linear_weight(linear.weight.detach(), ROWS)
        self._bias = None if linear.bias is None else linear.bias.detach()

    def forward(self, x: Tensor) -> Tensor:
        result: Tensor = torch.ops.mkldnn._linear_pointwise(x, self._packed, self._bias, "none", [], "")
        return result


def pack_linears(model: nn.Module) -> None:
    """Replaces every float32 Linear module of the model by a packed one, where this machine has oneDNN."""
    if not torch.backends.mkldnn.is_available():
        return
    for module in list(model.modules()):
        for name, child in list(module.named_children()):
            if type(child) is nn.Linear and child.weight.dtype == torch.float32:
                setattr(module, name, PackedLinear(child))
