"""Matrix products in torch: dense, packed by oneDNN, or int8."""

from collections.abc import Callable
from functools import cache

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


class PackedInt8Linear:
    """int8 weights with one scale per output for oneDNN, and inputs quantized to uint8 with a scale and zero per row.

    Products are summed as integers, so a row's result does not depend on other rows to the last bit. It is faster than
    `Int8Linear` for many rows.
    """

    def __init__(self, matrix: Matrix) -> None:
        weight = matrix.weight.float()
        scale = _weight_limits(weight).clamp_min(MIN_SCALE) / 127
        quantized = (weight / scale[:, None]).round_()
        self._packed = torch.ops.onednn.qlinear_prepack(quantized.to(torch.int8), None)
        self._scale = scale
        self._weight_sum = quantized.sum(1) * scale
        self._bias = torch.zeros_like(scale) if matrix.bias is None else matrix.bias.float()
        self.nbytes = quantized.numel() + 3 * scale.nbytes  # without the bias, as the others

    def __call__(self, rows: Tensor) -> Tensor:
        """Return the product of [rows, inputs], [rows, outputs]; both float32."""
        return self.multiply(QuantizedRows(rows))

    def multiply(self, rows: "QuantizedRows") -> Tensor:
        """Return the product of rows that several matrices may share."""
        product = _integer_product(rows.numbers, self._packed, self._scale)
        torch.addcmul(self._bias, product, rows.scale, out=product)
        return product.addcmul_(self._weight_sum, rows.lowest)


class QuantizedRows:
    """Rows as uint8 with a scale and a lowest value each: a number is `lowest` and so many times `scale`."""

    def __init__(self, rows: Tensor) -> None:
        highest = rows.amax(1, keepdim=True).clamp_min_(0)
        lowest = rows.amin(1, keepdim=True).clamp_max_(0)
        # One less than 255, because the zero is rounded.
        self.scale = (highest - lowest).clamp_min_(MIN_SCALE).div_(254)
        zero = (lowest / self.scale).floor_()
        # Through int8, since torch converts to uint8 three times as slowly.
        shifted = (rows * self.scale.reciprocal()).sub_(zero + 128).round_().to(torch.int8)
        self.numbers = shifted.view(torch.uint8).bitwise_xor_(128)
        self.lowest = zero.mul_(self.scale)


Linear = DenseLinear | PackedLinear | Int8Linear | PackedInt8Linear


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
    if dtype == torch.int8:
        return _sums_exactly(64, 64) and _sums_exactly(127, 1)
    return dtype is not torch.bfloat16 or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def _weight_limits(weight: Tensor) -> Tensor:
    """Return the number that becomes 127, for each output of [outputs, inputs].

    Without VNNI, the products of two neighbours are added in 16 bits, which hold 255 times 128.
    """
    limits = weight.abs().amax(1)
    if _sums_exactly(127, 127):
        return limits
    neighbours = functional.pad(weight, (0, weight.shape[1] % 2)).view(len(weight), -1, 2).sum(2)
    return limits.maximum(neighbours.abs().amax(1))


@cache
def _sums_exactly(*weights: int) -> bool:
    """Return whether the sum of 32 pairs of these weights is exact with the largest inputs."""
    rows = torch.full((2, 64), 255, dtype=torch.uint8)
    matrix = torch.tensor(weights, dtype=torch.int8).repeat(16, 32)
    try:
        packed = torch.ops.onednn.qlinear_prepack(matrix, None)
        sums = _integer_product(rows, packed, torch.ones(16))
    except (AttributeError, RuntimeError):  # this build or processor has no such kernels
        return False
    return bool((sums == 255 * 32 * sum(weights)).all())


def _integer_product(rows: Tensor, packed: Tensor, scale: Tensor) -> Tensor:
    """Return the product of uint8 rows and packed int8 weights, times the scale of each output, as float32."""
    zeros = torch.zeros(len(scale), dtype=torch.int32)
    product: Tensor = torch.ops.onednn.qlinear_pointwise(
        rows, 1.0, 0, packed, scale, zeros, None, 1.0, 0, torch.float32, "none", [], ""
    )
    return product
