"""Matrix products of decoders in torch: dense, packed by oneDNN, or int8."""

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from inference.engine.models.checkpoint import Matrix

MIN_SCALE = 1e-30  # of a row of zeros


class DenseLinear:
    """Plain weights on any device."""

    def __init__(self, matrix: Matrix, dtype: torch.dtype, device: torch.device) -> None:
        self._weight = matrix.weight.to(device=device, dtype=dtype, copy=True)
        self._bias = None if matrix.bias is None else matrix.bias.to(device=device, dtype=dtype)
        self.nbytes = self._weight.nbytes

    def __call__(self, rows: Tensor) -> Tensor:
        """Return the product of [rows, inputs], [rows, outputs]; both float32."""
        return functional.linear(rows.to(self._weight.dtype), self._weight, self._bias).float()


class PackedLinear:
    """Weights in the layout of oneDNN's kernels for this CPU, without another copy."""

    def __init__(self, matrix: Matrix, dtype: torch.dtype) -> None:
        weight = matrix.weight.to(dtype)
        self._dtype = dtype
        self._packed = torch.ops.mkldnn._reorder_linear_weight(weight.contiguous())
        self._bias = None if matrix.bias is None else matrix.bias.to(dtype)
        self.nbytes = weight.nbytes

    def __call__(self, rows: Tensor) -> Tensor:
        product: Tensor = torch.ops.mkldnn._linear_pointwise(
            rows.to(self._dtype), self._packed, self._bias, "none", [], ""
        )
        return product.float()


class Int8Linear:
    """int8 weights with one scale per output, and inputs quantized with one scale per row.

    Products are summed as integers, so a row's result does not depend on other rows to the last bit.
    """

    def __init__(self, matrix: Matrix) -> None:
        weight = matrix.weight.float()
        scale = weight.abs().amax(1).clamp_min(MIN_SCALE) / 127
        self._weight = (weight / scale[:, None]).round_().to(torch.int8).t()
        self._scale = scale
        self._bias = matrix.bias
        self.nbytes = self._weight.nbytes + scale.nbytes

    def __call__(self, rows: Tensor) -> Tensor:
        scale = rows.abs().amax(1, keepdim=True).clamp_min_(MIN_SCALE).div_(127)
        sums = torch._int_mm(rows.div(scale).round_().to(torch.int8), self._weight)
        product = sums.float().mul_(self._scale).mul_(scale)
        return product if self._bias is None else product.add_(self._bias)


Linear = DenseLinear | PackedLinear | Int8Linear


def linear_maker(dtype: torch.dtype, device: torch.device, *, int8: bool = False) -> Callable[[Matrix], Linear]:
    """Return the function that makes the fastest product for this type and device."""
    if int8:
        return Int8Linear
    if device.type == "cpu" and packs(dtype):
        return lambda matrix: PackedLinear(matrix, dtype)
    return lambda matrix: DenseLinear(matrix, dtype, device)


def packs(dtype: torch.dtype) -> bool:
    """Return whether oneDNN has kernels of this type for this CPU. Older CPUs have none for bfloat16."""
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return False
    return dtype is not torch.bfloat16 or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())
