"""GGUF's quantized blocks in the order in which the compiled kernels read them.

The blocks: https://github.com/ggml-org/ggml/blob/master/src/ggml-common.h. The records: kernels.cpp.
"""

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

BLOCK_INPUTS = 32  # numbers in a record
GROUP_INPUTS = 256  # numbers in a block of the K kinds
SIGN_BIT = 0x80
# Kinds that the kernels read, by their number there.
BLOCK_KINDS = {"Q4_0": 4, "Q4_1": 5, "Q8_0": 6, "Q5_0": 7, "Q5_1": 8, "Q4_K": 9, "Q5_K": 10, "Q6_K": 11}
# Bytes before the numbers of a block: half-precision scale and minimum, and the upper bits of 5-bit numbers.
_HEADS = {"Q4_0": (2, 0), "Q4_1": (4, 0), "Q8_0": (2, 0), "Q5_0": (2, 4), "Q5_1": (4, 4)}
_GROUP_BYTES = {"Q4_K": 144, "Q5_K": 176, "Q6_K": 210}
_SHIFTS = torch.arange(8, dtype=torch.uint8)


class _Parts(NamedTuple):
    """Parts of a matrix's records, each [outputs, records, bytes].

    words: numbers, four bytes of each output after each other. scales: of each record, in parts of `scale_bytes`.
    common: halves of each group of records, or None.
    """

    words: Tensor
    scales: Tensor
    scale_bytes: int
    common: Tensor | None = None


def block_records(kind: str, blocks: Tensor, width: int) -> Tensor:
    """Return a matrix's blocks, uint8 [outputs, bytes], as records: uint8 [outputs / width, bytes].

    width: outputs that the kernels compute at once. Missing outputs are zeros.
    """
    padded = functional.pad(blocks, (0, 0, 0, -len(blocks) % width))
    parts = _split_groups(kind, padded) if kind in _GROUP_BYTES else _split_blocks(kind, padded)
    count = parts.words.shape[1]
    groups = count if parts.common is None else parts.common.shape[1]
    sizes = [0 if parts.common is None else parts.common.shape[2], parts.words.shape[2] + parts.scales.shape[2]]
    records = torch.empty(
        len(padded) // width, groups, width * (sizes[0] + count // groups * sizes[1]), dtype=torch.uint8
    )
    if parts.common is not None:
        _interleave(parts.common, 2, records[..., : width * sizes[0]].unsqueeze(2))
    each = records[..., width * sizes[0] :].view(len(records), groups, count // groups, -1)
    first = width * parts.words.shape[2]
    _interleave(parts.words, 4, each[..., :first])
    _interleave(parts.scales, parts.scale_bytes, each[..., first:])
    return records.view(len(records), -1)


def record_inputs(kind: str, blocks: Tensor) -> int:
    """Return the number of inputs of a matrix's blocks, [outputs, bytes]."""
    if kind in _GROUP_BYTES:
        return blocks.shape[1] // _GROUP_BYTES[kind] * GROUP_INPUTS
    return blocks.shape[1] // _block_bytes(kind) * BLOCK_INPUTS


def _block_bytes(kind: str) -> int:
    return sum(_HEADS[kind]) + (BLOCK_INPUTS if kind == "Q8_0" else BLOCK_INPUTS // 2)


def _split_blocks(kind: str, blocks: Tensor) -> _Parts:
    """Split blocks of 32 numbers: their lower bits lie as in the records."""
    halves, upper = _HEADS[kind]
    parts = blocks.view(len(blocks), -1, _block_bytes(kind))
    words = parts[..., halves + upper :]
    if kind == "Q8_0":
        words = words ^ SIGN_BIT  # adds 128 to a number with sign
    if upper:
        bits = (parts[..., halves : halves + upper, None] >> _SHIFTS) & 1
        words = torch.cat([words, _fifth_bits(bits.view(*parts.shape[:2], BLOCK_INPUTS))], -1)
    return _Parts(words, parts[..., :halves], 2)


def _split_groups(kind: str, blocks: Tensor) -> _Parts:
    """Split blocks of 256 numbers with common scales. Each has eight records."""
    groups = blocks.view(len(blocks), -1, _GROUP_BYTES[kind])
    if kind == "Q6_K":
        return _split_six_bits(groups)
    numbers = groups[..., -GROUP_INPUTS // 2 :].view(*groups.shape[:2], 4, 1, BLOCK_INPUTS)
    lower = torch.cat([numbers & 15, numbers >> 4], 3).view(len(blocks), -1, BLOCK_INPUTS)
    words = _nibbles(lower)
    if kind == "Q5_K":
        upper = groups[..., 16:48].unsqueeze(2)
        bits = (upper >> _SHIFTS[:, None]) & 1
        words = torch.cat([words, _fifth_bits(bits.view(len(blocks), -1, BLOCK_INPUTS))], -1)
    scales = _six_bit_scales(groups[..., 4:16]).view(len(blocks), -1, 2)
    return _Parts(words, scales, 1, groups[..., :4])


def _split_six_bits(groups: Tensor) -> _Parts:
    outputs, count = groups.shape[:2]
    lower = groups[..., :128].view(outputs, count, 2, 1, 64)
    lower = torch.cat([lower & 15, lower >> 4], 3).view(outputs, -1, BLOCK_INPUTS)
    upper = groups[..., 128:192].view(outputs, count, 2, 1, BLOCK_INPUTS)
    upper = ((upper >> _SHIFTS[::2, None]) & 3).view(outputs, -1, 2, 4, 4)
    packed = (upper << _SHIFTS[::2, None]).sum(-2, dtype=torch.uint8).view(outputs, -1, 8)
    scales = groups[..., 192:208].reshape(outputs, -1, 2)
    return _Parts(torch.cat([_nibbles(lower), packed], -1), scales, 1, groups[..., 208:])


def _six_bit_scales(packed: Tensor) -> Tensor:
    """Return the scale and minimum of each record of a group, [..., 8, 2], from the 12 bytes that hold them."""
    first, second, third = packed.view(*packed.shape[:-1], 3, 4).unbind(-2)
    scales = torch.cat([first & 63, (third & 15) | (first >> 6 << 4)], -1)
    minimums = torch.cat([second & 63, (third >> 4) | (second >> 6 << 4)], -1)
    return torch.stack([scales, minimums], -1)


def _nibbles(numbers: Tensor) -> Tensor:
    """Return 32 numbers of four bits as 16 bytes, the second half in the upper bits."""
    return numbers[..., : BLOCK_INPUTS // 2] | (numbers[..., BLOCK_INPUTS // 2 :] << 4)


def _fifth_bits(bits: Tensor) -> Tensor:
    """Return 32 bits as four bytes: bit q of byte i belongs to number 4 q + i."""
    quads = bits.view(*bits.shape[:-1], 8, 4)
    return (quads << _SHIFTS[:, None]).sum(-2, dtype=torch.uint8)


def _interleave(parts: Tensor, size: int, target: Tensor) -> None:
    """Write parts of `size` bytes of each output after each other.

    parts: [outputs, records, bytes]. target: [outputs / width, groups, records of a group, width * bytes].
    """
    dtype = {1: torch.uint8, 2: torch.int16, 4: torch.int32}[size]
    units = parts.view(dtype) if _can_view(parts, size) else parts.contiguous().view(dtype)
    rows, groups, records = target.shape[:3]
    width = len(units) // rows
    source = units.view(rows, width, groups, records, -1).permute(0, 2, 3, 4, 1)
    target.view(dtype).view(source.shape).copy_(source)


def _can_view(parts: Tensor, size: int) -> bool:
    strides = (*parts.stride()[:-1], parts.storage_offset(), parts.shape[-1])
    return parts.stride(-1) == 1 and all(stride % size == 0 for stride in strides)
