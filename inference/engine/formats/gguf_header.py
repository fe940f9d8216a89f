"""The header of a GGUF file, read within limits, because files may come from anywhere.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (versions 2 and 3, little-endian).
"""

import math
import os
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from inference.engine.errors import ModelLoadFailed

MAGIC = b"GGUF"
MAX_KEY_COUNT = 4096
MAX_TENSOR_COUNT = 100_000
MAX_NAME_BYTES = 1024  # of a key or a tensor
MAX_TEXT_BYTES = 4 * 1024 * 1024  # of one value
MAX_ARRAY_LENGTH = 4_000_000  # the largest vocabularies are a tenth of it
MAX_DIMENSION_COUNT = 4
MAX_CONTEXT_LENGTH = 2**31
MAX_NUMBERS_PER_BYTE = 8  # no quantization is below one bit per number
STRING, ARRAY = 8, 9
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


@dataclass(frozen=True)
class GGUFHeader:
    """The content of a header.

    architecture: llama.cpp's name.
    context_size: tokens.
    values: all keys except arrays.
    parameters: numbers in all tensors.
    """

    architecture: str
    context_size: int
    values: dict[str, str | int | float | bool]
    parameters: int = 0


def find_gguf(path: Path) -> Path | None:
    """Return the GGUF file of a model: the path itself, or the only one in a folder without config.json, or None.

    Raise ModelLoadFailed for a folder with several of them.
    """
    if path.is_file():
        return path if path.suffix == ".gguf" else None
    found = sorted(path.glob("*.gguf"))
    if not found or (path / "config.json").exists():
        return None
    if len(found) > 1:
        raise ModelLoadFailed("The folder has several .gguf files. Keep one, or give each a folder of its own.")
    return found[0]


def read_gguf_header(file: Path) -> GGUFHeader:
    """Return the header of a file. Raise ModelLoadFailed with the reason if it is damaged or beyond the limits."""
    with file.open("rb") as stream:
        reader = _GGUFReader(stream)
        try:
            values = dict(reader.values())
            parameters = reader.parameters()
        except (struct.error, UnicodeDecodeError) as error:
            raise ModelLoadFailed("The file's header is cut off or damaged. Copy or convert it again.") from error
    architecture = values.get("general.architecture")
    context_size = values.get(f"{architecture}.context_length")
    context_size = context_size if isinstance(context_size, int) and not isinstance(context_size, bool) else 0
    if not isinstance(architecture, str) or not 0 < context_size < MAX_CONTEXT_LENGTH:
        raise ModelLoadFailed("The file's header names no architecture or no context length. Convert it again.")
    return GGUFHeader(architecture, context_size, values, parameters)


class _GGUFReader:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._size = os.fstat(stream.fileno()).st_size
        self._tensors = 0

    def values(self) -> Iterator[tuple[str, str | int | float | bool]]:
        """Yield keys with their values, without arrays."""
        if self._stream.read(4) != MAGIC:
            raise ModelLoadFailed("This is no GGUF file.")
        version = self._number("I")
        if version not in (2, 3):
            raise ModelLoadFailed(f"GGUF version {version} is not supported; versions 2 and 3 are. Convert it again.")
        tensors, keys = self._number("Q"), self._number("Q")
        if tensors > MAX_TENSOR_COUNT or keys > MAX_KEY_COUNT:
            raise ModelLoadFailed(
                f"The header claims {tensors} tensors and {keys} keys; at most {MAX_TENSOR_COUNT} tensors and "
                f"{MAX_KEY_COUNT} keys are supported."
            )
        self._tensors = tensors
        for _ in range(keys):
            key, kind = self._text(MAX_NAME_BYTES), self._number("I")
            if kind == ARRAY:
                self._skip_array()
            elif kind == STRING:
                yield key, self._text(MAX_TEXT_BYTES)
            else:
                yield key, self._number(self._struct_format(kind))

    def parameters(self) -> int:
        """Return the count of numbers in all tensors. Their descriptions follow the keys."""
        count = 0
        for _ in range(self._tensors):
            name, dimensions = self._text(MAX_NAME_BYTES), self._number("I")
            if dimensions > MAX_DIMENSION_COUNT:
                raise ModelLoadFailed(
                    f"The header has a tensor of {dimensions} dimensions; GGUF has at most {MAX_DIMENSION_COUNT}."
                )
            count += math.prod(self._number("Q") for _ in range(dimensions))
            _kind, offset = self._number("I"), self._number("Q")
            if offset > self._size:
                raise ModelLoadFailed(f"The file ends before its tensor {name[:100]}. Copy or convert it again.")
        if count > self._size * MAX_NUMBERS_PER_BYTE:
            raise ModelLoadFailed("The tensors of the header are larger than the file. Copy or convert it again.")
        return count

    def _number(self, struct_format: str) -> int:
        value: int
        (value,) = struct.unpack(f"<{struct_format}", self._stream.read(struct.calcsize(struct_format)))
        return value

    def _struct_format(self, kind: int) -> str:
        if kind not in NUMBERS:
            raise ModelLoadFailed(f"The header has a value of kind {kind}, which GGUF does not have.")
        return NUMBERS[kind]

    def _text(self, max_bytes: int) -> str:
        length = self._number("Q")
        if length > max_bytes:
            raise ModelLoadFailed(f"The header claims a text of {length} bytes; at most {max_bytes} are supported.")
        raw = self._stream.read(length)
        if len(raw) < length:
            raise struct.error
        return raw.decode()

    def _skip_array(self) -> None:
        kind, count = self._number("I"), self._number("Q")
        if count > MAX_ARRAY_LENGTH:
            raise ModelLoadFailed(
                f"The header claims an array of {count} items; at most {MAX_ARRAY_LENGTH} are supported."
            )
        if kind == STRING:
            for _ in range(count):
                self._skip(self._number("Q"))
        else:
            self._skip(count * struct.calcsize(self._struct_format(kind)))

    def _skip(self, count: int) -> None:
        if count > self._size - self._stream.tell():
            raise struct.error
        self._stream.seek(count, os.SEEK_CUR)
