"""Decompression bombs: small image files that would decode to huge images."""

import io
import struct
import time
import zlib
from collections.abc import Callable
from pathlib import Path

from commerce.attachments.images import processing

MEBIBYTE = 1024 * 1024


def png_chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(width: int, height: int, *extra: bytes, rows: bytes = b"") -> bytes:
    """Return an RGB PNG whose header declares this size. Its pixels may be missing."""
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    pixels = png_chunk(b"IDAT", zlib.compress(rows, 9))
    return b"\x89PNG\r\n\x1a\n" + header + b"".join(extra) + pixels + png_chunk(b"IEND", b"")


def png_of_174_megapixels() -> bytes:
    """Return a complete black PNG of one bit per pixel, about twenty kilobytes long."""
    side = 13_200
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", side, side, 1, 0, 0, 0, 0))
    pixels = png_chunk(b"IDAT", zlib.compress((b"\0" * (1 + side // 8)) * side, 9))
    return b"\x89PNG\r\n\x1a\n" + header + pixels + png_chunk(b"IEND", b"")


def apng_of_frames(frames: int) -> bytes:
    return png(10, 10, png_chunk(b"acTL", struct.pack(">II", frames, 0)))


def png_with_packed_text(size: int) -> bytes:
    return png(10, 10, png_chunk(b"zTXt", b"Comment\0\0" + zlib.compress(b"a" * size, 9)))


def png_with_packed_profile(size: int) -> bytes:
    return png(10, 10, png_chunk(b"iCCP", b"icc\0\0" + zlib.compress(b"a" * size, 9)))


def png_with_packed_international_text(size: int) -> bytes:
    return png(10, 10, png_chunk(b"iTXt", b"Comment\0\x01\0en\0\0" + zlib.compress(b"a" * size, 9)))


def png_with_large_exif(size: int) -> bytes:
    return png(10, 10, png_chunk(b"eXIf", b"a" * size))


def png_of_parts(count: int) -> bytes:
    return png(10, 10, png_chunk(b"IDAT", b"") * count)


def jpeg_with_large_exif(size: int) -> bytes:
    segment = b"\xff\xe1" + struct.pack(">H", 65_535) + b"Exif\0\0" + b"a" * 65_527
    frame = b"\xff\xc0" + struct.pack(">HBHHB", 11, 8, 10, 10, 1) + b"\x01\x11\x00"
    return b"\xff\xd8" + segment * (size // 65_535 + 1) + frame + b"\xff\xd9"


def gif(width: int, height: int, frames: int) -> bytes:
    frame = b"\x2c" + struct.pack("<HHHHB", 0, 0, 1, 1, 0) + b"\x02\x02\x4c\x01\x00"
    return b"GIF89a" + struct.pack("<HHBBB", width, height, 0, 0, 0) + frame * frames + b"\x3b"


def gif_with_oversized_frame(width: int, height: int) -> bytes:
    """Return a GIF with a screen of one pixel and a frame of this size."""
    frame = b"\x2c" + struct.pack("<HHHHB", 0, 0, width, height, 0) + b"\x02\x02\x4c\x01\x00"
    return b"GIF89a" + struct.pack("<HHBBB", 1, 1, 0, 0, 0) + frame + b"\x3b"


def webp(width: int, height: int, *chunks: bytes) -> bytes:
    sizes = (width - 1).to_bytes(3, "little") + (height - 1).to_bytes(3, "little")
    body = b"WEBP" + webp_chunk(b"VP8X", b"\x02\0\0\0" + sizes) + b"".join(chunks)
    return b"RIFF" + struct.pack("<I", len(body)) + body


def webp_chunk(kind: bytes, data: bytes) -> bytes:
    return kind + struct.pack("<I", len(data)) + data + b"\0" * (len(data) % 2)


def box(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", 8 + len(data)) + kind + data


def avif(width: int, height: int, *, samples: int = 0) -> bytes:
    extent = box(b"ispe", struct.pack(">III", 0, width, height))
    meta = box(b"meta", b"\0\0\0\0" + box(b"iprp", box(b"ipco", extent)))
    table = box(b"stsz", struct.pack(">III", 0, 0, samples))
    for kind in (b"stbl", b"minf", b"mdia", b"trak", b"moov"):
        table = box(kind, table)
    return box(b"ftyp", b"avif\0\0\0\0avifmif1") + meta + (table if samples else b"")


def avif_of_nested_boxes(depth: int) -> bytes:
    nested = b""
    for _ in range(depth):
        nested = box(b"moov", nested)
    return box(b"ftyp", b"avif\0\0\0\0avifmif1") + nested


BOMBS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "PNG of 174 megapixels": ("image/png", png_of_174_megapixels),
    "PNG that says 4 gigapixels": ("image/png", lambda: png(65_535, 65_535)),
    "PNG without height": ("image/png", lambda: png(10, 0)),
    "APNG of 10,000 frames": ("image/png", lambda: apng_of_frames(10_000)),
    "PNG with a text of 100 MiB": ("image/png", lambda: png_with_packed_text(100 * MEBIBYTE)),
    "PNG with an international text of 100 MiB": (
        "image/png",
        lambda: png_with_packed_international_text(100 * MEBIBYTE),
    ),
    "PNG with a profile of 100 MiB": ("image/png", lambda: png_with_packed_profile(100 * MEBIBYTE)),
    "PNG with 3 MiB of EXIF": ("image/png", lambda: png_with_large_exif(3 * MEBIBYTE)),
    "PNG of 110,000 chunks": ("image/png", lambda: png_of_parts(110_000)),
    "JPEG with 3 MiB of EXIF": ("image/jpeg", lambda: jpeg_with_large_exif(3 * MEBIBYTE)),
    "GIF of 10,000 frames": ("image/gif", lambda: gif(10, 10, 10_000)),
    "GIF of 60,000 x 60,000": ("image/gif", lambda: gif(60_000, 60_000, 1)),
    "GIF with a frame larger than its screen": ("image/gif", lambda: gif_with_oversized_frame(60_000, 60_000)),
    "GIF of 200 frames of 1,000 x 1,000": ("image/gif", lambda: gif(1000, 1000, 200)),
    "WebP of 10,000 frames": ("image/webp", lambda: webp(10, 10, webp_chunk(b"ANMF", b"a" * 24) * 10_000)),
    "WebP of 16,383 x 16,383": ("image/webp", lambda: webp(16_383, 16_383)),
    "WebP with 3 MiB of EXIF": (
        "image/webp",
        lambda: webp(10, 10, webp_chunk(b"EXIF", b"a" * 3 * MEBIBYTE)),
    ),
    "WebP of a million chunks": ("image/webp", lambda: webp(10, 10, webp_chunk(b"ALPH", b"") * 1_000_000)),
    "AVIF of 60,000 x 60,000": ("image/avif", lambda: avif(60_000, 60_000)),
    "AVIF of 10,000 frames": ("image/avif", lambda: avif(10, 10, samples=10_000)),
    "AVIF of boxes in boxes": ("image/avif", lambda: avif_of_nested_boxes(1000)),
    "AVIF without a size": ("image/avif", lambda: avif_of_nested_boxes(1)),
}


def refuse(name: str) -> tuple[str, float, int]:
    """Return the reason why this bomb is refused, the processor's seconds and the bytes of memory that it took."""
    content_type, make = BOMBS[name]
    source = io.BytesIO(make())
    Path("/proc/self/clear_refs").write_text("5")  # the peak is counted from here (proc(5))
    memory, began = _peak_memory(), time.process_time()
    try:
        processing.rewrite(source, content_type)
    except Exception as error:
        return f"{type(error).__name__}: {error}", time.process_time() - began, _peak_memory() - memory
    return "", 0.0, 0


def _peak_memory() -> int:
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.partition("VmHWM:")[2].split()[0])
