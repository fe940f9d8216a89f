"""Readers of image headers. They decode nothing, so a decompression bomb is refused at little cost.

PNG (W3C PNG, third edition), JPEG (ITU T.81), GIF89a, WebP (RFC 9649) and AVIF (ISO/IEC 14496-12 and 23000-22). A
header with wrong values is caught when the worker process decodes the image.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace

from commerce.attachments.images.limits import Content, ImageBudget, ImageHeader, InvalidImage, check_limits


def read_header(content: Content, content_type: str) -> ImageHeader:
    """Return the header of an image of this type. Raise InvalidImage for a damaged or oversized one."""
    try:
        header = _READERS[content_type](content)
    except (struct.error, IndexError, zlib.error):
        raise InvalidImage("is truncated or damaged.") from None
    check_limits(header)
    return header


def _read_png(content: Content) -> ImageHeader:
    budget, header, at = ImageBudget(), None, 8
    while True:
        length, kind = struct.unpack(">I4s", content[at : at + 8])
        budget.add_part()
        if kind == b"IHDR":
            width, height = struct.unpack(">II", content[at + 8 : at + 16])
            header = ImageHeader(width=width, height=height)
        elif header is None:
            raise InvalidImage("is truncated or damaged.")
        elif kind == b"acTL":
            frames = struct.unpack(">I", content[at + 8 : at + 12])[0]
            header = replace(header, frames=max(1, frames))
            check_limits(header)
        elif kind == b"IEND":
            return header
        elif kind == b"fcTL":
            budget.add_frame()
        elif kind in (b"zTXt", b"iCCP", b"iTXt"):
            _count_png_text(budget, kind, content[at + 8 : at + 8 + length])
        elif kind not in (b"IDAT", b"fdAT"):
            budget.add_metadata(length)
        at += 12 + length


def _count_png_text(budget: ImageBudget, kind: bytes, data: bytes) -> None:
    budget.add_metadata(len(data))
    _, _, rest = data.partition(b"\0")
    if kind != b"iTXt":
        budget.add_compressed_metadata(rest[1:])
    elif rest[:1] == b"\1":  # compressed: preceded by a method, a language and a translated keyword
        budget.add_compressed_metadata(rest[2:].split(b"\0", 2)[2])


_JPEG_FRAME_MARKERS = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}
_JPEG_BARE_MARKERS = frozenset({0x01, *range(0xD0, 0xD8)})


def _read_jpeg(content: Content) -> ImageHeader:
    budget, at = ImageBudget(), 2
    while True:
        budget.add_part()
        if content[at] != 0xFF:
            raise InvalidImage("is truncated or damaged.")
        marker = content[at + 1]
        if marker == 0xFF:  # padding
            at += 1
            continue
        if marker in _JPEG_BARE_MARKERS:
            at += 2
            continue
        length = struct.unpack(">H", content[at + 2 : at + 4])[0]
        if marker in _JPEG_FRAME_MARKERS:
            height, width = struct.unpack(">HH", content[at + 5 : at + 9])
            return ImageHeader(width=width, height=height)
        if marker in (0xD9, 0xDA):
            raise InvalidImage("is truncated or damaged.")
        if marker >= 0xE0:
            budget.add_metadata(length)
        at += 2 + length


def _read_gif(content: Content) -> ImageHeader:
    width, height, flags = struct.unpack("<HHB", content[6:11])
    budget, frames, at = ImageBudget(), 0, 13 + _color_table_bytes(flags)
    while True:
        budget.add_part()
        kind = content[at]
        if kind == 0x3B or at == len(content) - 1:
            return ImageHeader(width=width, height=height, frames=max(1, frames))
        if kind == 0x2C:
            left, top, wide, high, flags = struct.unpack("<HHHHB", content[at + 1 : at + 10])
            width, height, frames = max(width, left + wide), max(height, top + high), frames + 1
            budget.add_frame()
            check_limits(ImageHeader(width=width, height=height, frames=frames))
            at = _skip_blocks(content, at + 11 + _color_table_bytes(flags), budget)
        elif kind == 0x21:
            after = _skip_blocks(content, at + 2, budget)
            budget.add_metadata(after - at)
            at = after
        else:
            raise InvalidImage("is truncated or damaged.")


def _color_table_bytes(flags: int) -> int:
    return 3 * 2 ** ((flags & 7) + 1) if flags & 0x80 else 0


def _skip_blocks(content: Content, at: int, budget: ImageBudget) -> int:
    while size := content[at]:
        budget.add_part()
        at += 1 + size
    return at + 1


def _read_webp(content: Content) -> ImageHeader:
    budget, header, frames, at = ImageBudget(), ImageHeader(width=0, height=0), 0, 12
    end = min(len(content), 8 + struct.unpack("<I", content[4:8])[0])
    while at + 8 <= end:
        kind, size = struct.unpack("<4sI", content[at : at + 8])
        budget.add_part()
        if kind in _WEBP_SIZE_READERS:
            width, height = _WEBP_SIZE_READERS[kind](content[at + 8 : at + 18])
            header = ImageHeader(width=max(header.width, width), height=max(header.height, height))
        elif kind == b"ANMF":
            budget.add_frame()
            frames += 1
        elif kind not in (b"ALPH", b"ANIM"):
            budget.add_metadata(size)
        at += 8 + size + size % 2
    return replace(header, frames=max(1, frames))


def _read_vp8(data: bytes) -> tuple[int, int]:
    if data[3:6] != b"\x9d\x01\x2a":
        raise InvalidImage("is truncated or damaged.")
    width, height = struct.unpack("<HH", data[6:10])
    return width & 0x3FFF, height & 0x3FFF


def _read_vp8l(data: bytes) -> tuple[int, int]:
    bits = struct.unpack("<I", data[1:5])[0]
    return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1


def _read_vp8x(data: bytes) -> tuple[int, int]:
    struct.unpack("10x", data)
    return int.from_bytes(data[4:7], "little") + 1, int.from_bytes(data[7:10], "little") + 1


_WEBP_SIZE_READERS = {b"VP8 ": _read_vp8, b"VP8L": _read_vp8l, b"VP8X": _read_vp8x}

_AVIF_CONTAINER_BOXES = {b"meta": 4, b"iprp": 0, b"ipco": 0, b"moov": 0, b"trak": 0, b"mdia": 0, b"minf": 0, b"stbl": 0}


def _read_avif(content: Content) -> ImageHeader:
    header, frames = ImageHeader(width=0, height=0), 1
    for kind, at in _iter_boxes(content, 0, len(content), ImageBudget(), depth=0):
        if kind == b"ispe":
            width, height = struct.unpack(">II", content[at + 4 : at + 12])
            header = ImageHeader(width=max(header.width, width), height=max(header.height, height))
        elif kind == b"stsz":
            frames = max(frames, struct.unpack(">I", content[at + 8 : at + 12])[0])
    return replace(header, frames=frames)


def _iter_boxes(content: Content, at: int, end: int, budget: ImageBudget, depth: int) -> Iterator[tuple[bytes, int]]:
    """Yield each box's kind and the offset of its data."""
    while at + 8 <= end:
        budget.add_part()
        size, kind = struct.unpack(">I4s", content[at : at + 8])
        head = 8
        if size == 1:
            size, head = struct.unpack(">Q", content[at + 8 : at + 16])[0], 16
        elif size == 0:
            size = end - at
        if size < head or depth > len(_AVIF_CONTAINER_BOXES):
            raise InvalidImage("is truncated or damaged.")
        yield kind, at + head
        if kind in _AVIF_CONTAINER_BOXES:
            inner = at + head + _AVIF_CONTAINER_BOXES[kind]
            yield from _iter_boxes(content, inner, min(end, at + size), budget, depth + 1)
        at += size


_READERS = {
    "image/jpeg": _read_jpeg,
    "image/png": _read_png,
    "image/gif": _read_gif,
    "image/webp": _read_webp,
    "image/avif": _read_avif,
}
