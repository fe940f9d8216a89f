"""How large an image says it is, read from its structure alone: nothing is decoded, so nothing can blow up.

PNG (W3C PNG, third edition), JPEG (ITU T.81), GIF89a, WebP (RFC 9649) and AVIF (ISO/IEC 14496-12 and 23000-22). A file
that lies here is caught when it is decoded, in a process of its own (`picture_process`).
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from mmap import mmap

MOST_PIXELS = 50_000_000
# As JPEG and GIF have it. A WebP of two million columns and ten rows keeps its decoder for seconds.
LONGEST_SIDE = 65_535
MOST_FRAMES = 200
MOST_PIXELS_OF_ALL_FRAMES = 100_000_000
MOST_METADATA_BYTES = 2 * 1024 * 1024  # of colour profiles, texts and the like, unpacked
MOST_PARTS = 100_000  # chunks, segments, blocks or boxes

Content = mmap | bytes


class BadImage(Exception):
    """Not taken; the message completes "FILE ..."."""


@dataclass(frozen=True, kw_only=True)
class Header:
    """What an image says of itself, in pixels; `frames` is 1 for a still one."""

    width: int
    height: int
    frames: int = 1


def read_header(content: Content, content_type: str) -> Header:
    """The header of an image of this type. Raises BadImage for one that is broken or larger than we open."""
    try:
        header = _READERS[content_type](content)
    except (struct.error, IndexError, zlib.error):
        raise BadImage("is cut short or damaged.") from None
    _check_bounds(header)
    return header


def _check_bounds(header: Header) -> None:
    pixels = header.width * header.height
    if not pixels:
        raise BadImage("has no size.")
    if pixels > MOST_PIXELS:
        raise BadImage(f"has {pixels / 1e6:.0f} megapixels; at most {MOST_PIXELS // 1_000_000} are taken.")
    if max(header.width, header.height) > LONGEST_SIDE:
        raise BadImage(f"is {max(header.width, header.height)} pixels long; at most {LONGEST_SIDE} are taken.")
    if header.frames > MOST_FRAMES:
        raise BadImage(f"has more than {MOST_FRAMES} frames.")
    if pixels * header.frames > MOST_PIXELS_OF_ALL_FRAMES:
        most = MOST_PIXELS_OF_ALL_FRAMES // 1_000_000
        raise BadImage(f"is too large an animation: at most {most} megapixels over all its frames are taken.")


class _Budget:
    """Counts what a file may have only so much of."""

    def __init__(self) -> None:
        self._parts = 0
        self._metadata = 0
        self._frames = 0

    def part(self) -> None:
        self._parts += 1
        if self._parts > MOST_PARTS:
            raise BadImage("is made of too many parts.")

    def metadata(self, size: int) -> None:
        self._metadata += size
        if self._metadata > MOST_METADATA_BYTES:
            raise BadImage("has too much metadata: colour profiles, texts or camera data.")

    def packed_metadata(self, packed: bytes) -> None:
        """Deflated metadata counts as what it unpacks to, of which no more is unpacked than could be allowed."""
        self.metadata(len(zlib.decompressobj().decompress(packed, MOST_METADATA_BYTES + 1)))

    def frame(self) -> None:
        self._frames += 1
        if self._frames > MOST_FRAMES:
            raise BadImage(f"has more than {MOST_FRAMES} frames.")


def _read_png(content: Content) -> Header:
    budget, header, at = _Budget(), None, 8
    while True:
        length, kind = struct.unpack(">I4s", content[at : at + 8])
        budget.part()
        if kind == b"IHDR":
            width, height = struct.unpack(">II", content[at + 8 : at + 16])
            header = Header(width=width, height=height)
        elif header is None:
            raise BadImage("is cut short or damaged.")
        elif kind == b"acTL":
            frames = struct.unpack(">I", content[at + 8 : at + 12])[0]
            header = replace(header, frames=max(1, frames))
            _check_bounds(header)
        elif kind == b"IEND":
            return header
        elif kind == b"fcTL":
            budget.frame()
        elif kind in (b"zTXt", b"iCCP", b"iTXt"):
            _count_png_text(budget, kind, content[at + 8 : at + 8 + length])
        elif kind not in (b"IDAT", b"fdAT"):
            budget.metadata(length)
        at += 12 + length


def _count_png_text(budget: _Budget, kind: bytes, data: bytes) -> None:
    budget.metadata(len(data))
    _, _, rest = data.partition(b"\0")
    if kind != b"iTXt":
        budget.packed_metadata(rest[1:])
    elif rest[:1] == b"\1":  # compressed: a method, a language and a translated keyword come first
        budget.packed_metadata(rest[2:].split(b"\0", 2)[2])


_JPEG_SIZES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_BARE = frozenset({0x01, *range(0xD0, 0xD8)})


def _read_jpeg(content: Content) -> Header:
    budget, at = _Budget(), 2
    while True:
        budget.part()
        if content[at] != 0xFF:
            raise BadImage("is cut short or damaged.")
        marker = content[at + 1]
        if marker == 0xFF:  # padding
            at += 1
            continue
        if marker in _JPEG_BARE:
            at += 2
            continue
        length = struct.unpack(">H", content[at + 2 : at + 4])[0]
        if marker in _JPEG_SIZES:
            height, width = struct.unpack(">HH", content[at + 5 : at + 9])
            return Header(width=width, height=height)
        if marker in (0xD9, 0xDA):
            raise BadImage("is cut short or damaged.")
        if marker >= 0xE0:
            budget.metadata(length)
        at += 2 + length


def _read_gif(content: Content) -> Header:
    width, height, flags = struct.unpack("<HHB", content[6:11])
    budget, frames, at = _Budget(), 0, 13 + _colour_table(flags)
    while True:
        budget.part()
        kind = content[at]
        if kind == 0x3B or at == len(content) - 1:
            return Header(width=width, height=height, frames=max(1, frames))
        if kind == 0x2C:
            left, top, wide, high, flags = struct.unpack("<HHHHB", content[at + 1 : at + 10])
            width, height, frames = max(width, left + wide), max(height, top + high), frames + 1
            budget.frame()
            _check_bounds(Header(width=width, height=height, frames=frames))
            at = _after_blocks(content, at + 11 + _colour_table(flags), budget)
        elif kind == 0x21:
            after = _after_blocks(content, at + 2, budget)
            budget.metadata(after - at)
            at = after
        else:
            raise BadImage("is cut short or damaged.")


def _colour_table(flags: int) -> int:
    return 3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0


def _after_blocks(content: Content, at: int, budget: _Budget) -> int:
    while size := content[at]:
        budget.part()
        at += 1 + size
    return at + 1


def _read_webp(content: Content) -> Header:
    budget, header, frames, at = _Budget(), Header(width=0, height=0), 0, 12
    end = min(len(content), 8 + struct.unpack("<I", content[4:8])[0])
    while at + 8 <= end:
        kind, size = struct.unpack("<4sI", content[at : at + 8])
        budget.part()
        if kind in _WEBP_SIZES:
            width, height = _WEBP_SIZES[kind](content[at + 8 : at + 18])
            header = Header(width=max(header.width, width), height=max(header.height, height))
        elif kind == b"ANMF":
            budget.frame()
            frames += 1
        elif kind not in (b"ALPH", b"ANIM"):
            budget.metadata(size)
        at += 8 + size + size % 2
    return replace(header, frames=max(1, frames))


def _vp8(data: bytes) -> tuple[int, int]:
    if data[3:6] != b"\x9d\x01\x2a":
        raise BadImage("is cut short or damaged.")
    width, height = struct.unpack("<HH", data[6:10])
    return width & 0x3FFF, height & 0x3FFF


def _vp8l(data: bytes) -> tuple[int, int]:
    bits = struct.unpack("<I", data[1:5])[0]
    return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1


def _vp8x(data: bytes) -> tuple[int, int]:
    struct.unpack("10x", data)
    return int.from_bytes(data[4:7], "little") + 1, int.from_bytes(data[7:10], "little") + 1


_WEBP_SIZES = {b"VP8 ": _vp8, b"VP8L": _vp8l, b"VP8X": _vp8x}

_BOXES_OF_BOXES = {b"meta": 4, b"iprp": 0, b"ipco": 0, b"moov": 0, b"trak": 0, b"mdia": 0, b"minf": 0, b"stbl": 0}


def _read_avif(content: Content) -> Header:
    header, frames = Header(width=0, height=0), 1
    for kind, at in _boxes(content, 0, len(content), _Budget(), depth=0):
        if kind == b"ispe":
            width, height = struct.unpack(">II", content[at + 4 : at + 12])
            header = Header(width=max(header.width, width), height=max(header.height, height))
        elif kind == b"stsz":
            frames = max(frames, struct.unpack(">I", content[at + 8 : at + 12])[0])
    return replace(header, frames=frames)


def _boxes(content: Content, at: int, end: int, budget: _Budget, depth: int) -> Iterator[tuple[bytes, int]]:
    """Each box's kind, and where its data begins."""
    while at + 8 <= end:
        budget.part()
        size, kind = struct.unpack(">I4s", content[at : at + 8])
        head = 8
        if size == 1:
            size, head = struct.unpack(">Q", content[at + 8 : at + 16])[0], 16
        elif size == 0:
            size = end - at
        if size < head or depth > len(_BOXES_OF_BOXES):
            raise BadImage("is cut short or damaged.")
        yield kind, at + head
        if kind in _BOXES_OF_BOXES:
            inner = at + head + _BOXES_OF_BOXES[kind]
            yield from _boxes(content, inner, min(end, at + size), budget, depth + 1)
        at += size


_READERS = {
    "image/jpeg": _read_jpeg,
    "image/png": _read_png,
    "image/gif": _read_gif,
    "image/webp": _read_webp,
    "image/avif": _read_avif,
}
