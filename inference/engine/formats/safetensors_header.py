"""The header of a safetensors file, read within limits, because files may come from anywhere.

The format: https://huggingface.co/docs/safetensors/index#format
"""

import math
from dataclasses import dataclass
from pathlib import Path

import msgspec

from inference.engine.errors import ModelLoadFailed

MAX_HEADER_BYTES = 32 * 1024 * 1024  # the largest known headers are a tenth of it
MAX_DIMENSION_COUNT = 16
BITS = {
    "F64": 64, "I64": 64, "U64": 64, "F32": 32, "I32": 32, "U32": 32, "F16": 16, "BF16": 16, "I16": 16, "U16": 16,
    "F8_E4M3": 8, "F8_E5M2": 8, "I8": 8, "U8": 8, "BOOL": 8,
}  # fmt: skip


class _TensorEntry(msgspec.Struct):
    dtype: str
    shape: list[int]
    data_offsets: tuple[int, int]


@dataclass(frozen=True)
class SafetensorsHeader:
    """Counts of a file. parameters: numbers in all tensors. dtypes: numbers of each type, by safetensors' names.

    shapes: of all tensors.
    """

    parameters: int
    dtypes: dict[str, int]
    shapes: dict[str, list[int]]


def read_safetensors_header(file: Path) -> SafetensorsHeader:
    """Return the counts of a file. Raise ModelLoadFailed with the reason if its header is damaged or wrong."""
    size = file.stat().st_size
    with file.open("rb") as stream:
        length = int.from_bytes(stream.read(8), "little")
        if size < 8 or length > size - 8:
            raise ModelLoadFailed(f"{file.name} is cut off: copy or download it again.")
        if length > MAX_HEADER_BYTES:
            raise ModelLoadFailed(
                f"{file.name} has a header of {length} bytes; at most {MAX_HEADER_BYTES} are supported."
            )
        raw = stream.read(length)
    tensors = _tensors(raw, file.name)
    dtypes: dict[str, int] = {}
    for tensor in tensors.values():
        dtypes[tensor.dtype] = dtypes.get(tensor.dtype, 0) + _count(tensor, size - 8 - length, file.name)
    return SafetensorsHeader(sum(dtypes.values()), dtypes, {name: tensor.shape for name, tensor in tensors.items()})


def _tensors(raw: bytes, name: str) -> dict[str, _TensorEntry]:
    try:
        entries = msgspec.json.decode(raw, type=dict[str, msgspec.Raw])
        entries.pop("__metadata__", None)
        return {key: msgspec.json.decode(entry, type=_TensorEntry) for key, entry in entries.items()}
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise ModelLoadFailed(f"{name} has a damaged header: copy or download it again.") from error


def _count(tensor: _TensorEntry, data_bytes: int, name: str) -> int:
    begin, end = tensor.data_offsets
    shape = tensor.shape
    is_valid = len(shape) <= MAX_DIMENSION_COUNT and all(size >= 0 for size in shape) and tensor.dtype in BITS
    count = math.prod(shape) if is_valid else -1
    if not (0 <= begin <= end <= data_bytes) or count * BITS.get(tensor.dtype, 0) != (end - begin) * 8:
        raise ModelLoadFailed(f"{name} describes tensors that it does not hold: copy or download it again.")
    return count
