"""What a GGUF file says of itself, read within limits: whatever a file claims, little is read and nothing believed.

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
MOST_KEYS = 4096
MOST_TENSORS = 100_000
LONGEST_NAME = 1024  # bytes, of a key or a tensor
LONGEST_TEXT = 4 * 1024 * 1024  # bytes, of one value
MOST_ITEMS = 4_000_000  # of an array; the largest vocabularies are a tenth of it
MOST_DIMENSIONS = 4
LONGEST_CONTEXT = 2**31
NUMBERS_PER_BYTE = 8  # at most: no form is below one bit a number
STRING, ARRAY = 8, 9
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


@dataclass(frozen=True)
class GGUFHeader:
    """`architecture` as llama.cpp calls it; `context_size` in tokens; `values`: every key but arrays; `parameters`:
    numbers in all tensors."""

    architecture: str
    context_size: int
    values: dict[str, str | int | float | bool]
    parameters: int = 0


def find_gguf(path: Path) -> Path | None:
    """The GGUF file that a model is: the path itself, or the only one in a folder without a config.json.

    Raises ModelLoadFailed for a folder with several of them.
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
    """Raises ModelLoadFailed with the reason when the file is broken or says what no model says."""
    with file.open("rb") as stream:
        reader = _Reader(stream)
        try:
            values = dict(reader.values())
            parameters = reader.parameters()
        except (struct.error, UnicodeDecodeError) as error:
            raise ModelLoadFailed("The file's header is cut off or damaged. Copy or convert it again.") from error
    architecture = values.get("general.architecture")
    context_size = values.get(f"{architecture}.context_length")
    context_size = context_size if isinstance(context_size, int) and not isinstance(context_size, bool) else 0
    if not isinstance(architecture, str) or not 0 < context_size < LONGEST_CONTEXT:
        raise ModelLoadFailed("The file's header names no architecture or no context length. Convert it again.")
    return GGUFHeader(architecture, context_size, values, parameters)


class _Reader:
    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._size = os.fstat(stream.fileno()).st_size
        self._tensors = 0

    def values(self) -> Iterator[tuple[str, str | int | float | bool]]:
        """Keys with their values, arrays passed over."""
        if self._stream.read(4) != MAGIC:
            raise ModelLoadFailed("This is no GGUF file.")
        version = self._number("I")
        if version not in (2, 3):
            raise ModelLoadFailed(f"GGUF version {version} is not read; versions 2 and 3 are. Convert it again.")
        tensors, keys = self._number("Q"), self._number("Q")
        if tensors > MOST_TENSORS or keys > MOST_KEYS:
            raise ModelLoadFailed(f"The header claims {tensors} tensors and {keys} keys, which no model has.")
        self._tensors = tensors
        for _ in range(keys):
            key, kind = self._text(LONGEST_NAME), self._number("I")
            if kind == ARRAY:
                self._pass_array()
            elif kind == STRING:
                yield key, self._text(LONGEST_TEXT)
            else:
                yield key, self._number(self._form(kind))

    def parameters(self) -> int:
        """Numbers in all tensors, whose descriptions stand behind the keys."""
        count = 0
        for _ in range(self._tensors):
            name, dimensions = self._text(LONGEST_NAME), self._number("I")
            if dimensions > MOST_DIMENSIONS:
                raise ModelLoadFailed(f"The header has a tensor of {dimensions} dimensions, which GGUF does not have.")
            count += math.prod(self._number("Q") for _ in range(dimensions))
            _kind, offset = self._number("I"), self._number("Q")
            if offset > self._size:
                raise ModelLoadFailed(f"The file ends before its tensor {name[:100]}. Copy or convert it again.")
        if count > self._size * NUMBERS_PER_BYTE:
            raise ModelLoadFailed("The header has larger tensors than the file has room for. Copy or convert it again.")
        return count

    def _number(self, form: str) -> int:
        value: int
        (value,) = struct.unpack(f"<{form}", self._stream.read(struct.calcsize(form)))
        return value

    def _form(self, kind: int) -> str:
        if kind not in NUMBERS:
            raise ModelLoadFailed(f"The header has a value of kind {kind}, which GGUF does not have.")
        return NUMBERS[kind]

    def _text(self, longest: int) -> str:
        length = self._number("Q")
        if length > longest:
            raise ModelLoadFailed(f"The header claims a text of {length} bytes; at most {longest} are read.")
        raw = self._stream.read(length)
        if len(raw) < length:
            raise struct.error
        return raw.decode()

    def _pass_array(self) -> None:
        kind, count = self._number("I"), self._number("Q")
        if count > MOST_ITEMS:
            raise ModelLoadFailed(f"The header claims an array of {count} items; at most {MOST_ITEMS} are read.")
        if kind == STRING:
            for _ in range(count):
                self._skip(self._number("Q"))
        else:
            self._skip(count * struct.calcsize(self._form(kind)))

    def _skip(self, count: int) -> None:
        if count > self._size - self._stream.tell():
            raise struct.error
        self._stream.seek(count, os.SEEK_CUR)
