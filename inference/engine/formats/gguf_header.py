"""The header of a GGUF file, read within limits, because files may come from anywhere.

The format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md (versions 2 and 3, little-endian).
"""

import math
import struct
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from mmap import ACCESS_READ, mmap
from pathlib import Path

from inference.engine.errors import ModelLoadFailed

MAGIC = b"GGUF"
NO_GGUF = "This is no GGUF file."
MAX_KEY_COUNT = 4096
MAX_TENSOR_COUNT = 100_000
MAX_NAME_BYTES = 1024  # of a key or a tensor
MAX_TEXT_BYTES = 4 * 1024 * 1024  # of one value
MAX_ARRAY_LENGTH = 4_000_000  # the largest vocabularies are a tenth of it
MAX_DIMENSION_COUNT = 4
MAX_CONTEXT_LENGTH = 2**31
MAX_NUMBERS_PER_BYTE = 8  # no quantization is below one bit per number
DEFAULT_ALIGNMENT = 32  # bytes; tensors begin at multiples of it
MAX_ALIGNMENT = 2**16
STRING, ARRAY = 8, 9
LENGTH = struct.Struct("<Q")  # of a text
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


@dataclass(frozen=True, slots=True)
class GGUFTensor:
    """The description of a tensor. kind: its number in `enum ggml_type`. offset: from the beginning of the file."""

    shape: tuple[int, ...]
    kind: int
    offset: int


@dataclass(frozen=True)
class GGUFHeader:
    """The content of a header.

    architecture: llama.cpp's name.
    context_size: tokens.
    values: all keys except arrays.
    array_lengths: the other keys.
    parameters: numbers in all tensors.
    """

    architecture: str
    context_size: int
    values: dict[str, str | int | float | bool]
    array_lengths: dict[str, int] = field(default_factory=dict)
    tensors: dict[str, GGUFTensor] = field(default_factory=dict)

    @property
    def parameters(self) -> int:
        return sum(math.prod(tensor.shape) for tensor in self.tensors.values())


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
    if not file.stat().st_size:
        raise ModelLoadFailed(NO_GGUF)
    with file.open("rb") as stream, closing(mmap(stream.fileno(), 0, access=ACCESS_READ)) as content:
        reader = _GGUFReader(content)
        try:
            values = dict(reader.values())
            tensors = reader.tensors(values.get("general.alignment", DEFAULT_ALIGNMENT))
        except (struct.error, UnicodeDecodeError) as error:
            raise ModelLoadFailed("The file's header is cut off or damaged. Copy or convert it again.") from error
    architecture = values.get("general.architecture")
    context_size = values.get(f"{architecture}.context_length")
    context_size = context_size if isinstance(context_size, int) and not isinstance(context_size, bool) else 0
    if not isinstance(architecture, str) or not 0 < context_size < MAX_CONTEXT_LENGTH:
        raise ModelLoadFailed("The file's header names no architecture or no context length. Convert it again.")
    return GGUFHeader(architecture, context_size, values, reader.array_lengths, tensors)


class _GGUFReader:
    def __init__(self, content: mmap) -> None:
        self._content = content
        self._size = len(content)
        self._position = 0
        self._tensor_count = 0
        self.array_lengths: dict[str, int] = {}

    def values(self) -> Iterator[tuple[str, str | int | float | bool]]:
        """Yield keys with their values. Arrays are only counted, in `array_lengths`."""
        if self._content[: len(MAGIC)] != MAGIC:
            raise ModelLoadFailed(NO_GGUF)
        self._position = len(MAGIC)
        version = self._number("I")
        if version not in (2, 3):
            raise ModelLoadFailed(f"GGUF version {version} is not supported; versions 2 and 3 are. Convert it again.")
        self._tensor_count, keys = self._number("Q"), self._number("Q")
        if self._tensor_count > MAX_TENSOR_COUNT or keys > MAX_KEY_COUNT:
            raise ModelLoadFailed(
                f"The header claims {self._tensor_count} tensors and {keys} keys; at most {MAX_TENSOR_COUNT} tensors "
                f"and {MAX_KEY_COUNT} keys are supported."
            )
        for _ in range(keys):
            key, kind = self._text(MAX_NAME_BYTES), self._number("I")
            if kind == ARRAY:
                self.array_lengths[key] = self._skip_array()
            elif kind == STRING:
                yield key, self._text(MAX_TEXT_BYTES)
            else:
                yield key, self._number(self._struct_format(kind))

    def tensors(self, alignment: object) -> dict[str, GGUFTensor]:
        """Return the tensors, whose descriptions follow the keys. Their values begin after them, aligned."""
        if not isinstance(alignment, int) or not 0 < alignment <= MAX_ALIGNMENT:
            raise ModelLoadFailed(f"The header has the alignment {alignment}; it must be 1 to {MAX_ALIGNMENT}.")
        described = [self._tensor() for _ in range(self._tensor_count)]
        start = (self._position + alignment - 1) // alignment * alignment
        tensors = {name: GGUFTensor(shape, kind, start + offset) for name, shape, kind, offset in described}
        if len(tensors) < len(described):
            raise ModelLoadFailed("The header has two tensors of the same name. Convert the file again.")
        count = sum(math.prod(tensor.shape) for tensor in tensors.values())
        if count > self._size * MAX_NUMBERS_PER_BYTE:
            raise ModelLoadFailed("The tensors of the header are larger than the file. Copy or convert it again.")
        return tensors

    def _tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        name, dimensions = self._text(MAX_NAME_BYTES), self._number("I")
        if dimensions > MAX_DIMENSION_COUNT:
            raise ModelLoadFailed(
                f"The header has a tensor of {dimensions} dimensions; GGUF has at most {MAX_DIMENSION_COUNT}."
            )
        shape = [self._number("Q") for _ in range(dimensions)]
        kind, offset = self._number("I"), self._number("Q")
        if offset > self._size:
            raise ModelLoadFailed(f"The file ends before its tensor {name[:100]}. Copy or convert it again.")
        return name, tuple(reversed(shape)), kind, offset

    def _number(self, struct_format: str) -> int:
        value: int
        (value,) = struct.unpack_from(f"<{struct_format}", self._content, self._position)
        self._position += struct.calcsize(struct_format)
        return value

    def _struct_format(self, kind: int) -> str:
        if kind not in NUMBERS:
            raise ModelLoadFailed(f"The header has a value of kind {kind}, which GGUF does not have.")
        return NUMBERS[kind]

    def _text(self, max_bytes: int) -> str:
        length = self._number("Q")
        if length > max_bytes:
            raise ModelLoadFailed(f"The header claims a text of {length} bytes; at most {max_bytes} are supported.")
        start = self._position
        self._skip(length)
        return self._content[start : self._position].decode()

    def _skip_array(self) -> int:
        """Skip an array and return its length."""
        kind, count = self._number("I"), self._number("Q")
        if count > MAX_ARRAY_LENGTH:
            raise ModelLoadFailed(
                f"The header claims an array of {count} items; at most {MAX_ARRAY_LENGTH} are supported."
            )
        if kind == STRING:
            self._skip_texts(count)
        else:
            self._skip(count * struct.calcsize(self._struct_format(kind)))
        return count

    def _skip_texts(self, count: int) -> None:
        content, position, size = self._content, self._position, self._size
        unpack = LENGTH.unpack_from
        for _ in range(count):  # a vocabulary has 100,000 and more
            position += 8 + unpack(content, position)[0]
            if position > size:
                raise struct.error
        self._position = position

    def _skip(self, count: int) -> None:
        if count > self._size - self._position:
            raise struct.error
        self._position += count
