"""Limits of the images that are accepted, and the errors and counters that enforce them."""

import zlib
from dataclasses import dataclass
from mmap import mmap

MAX_PIXELS = 50_000_000
# The maximum of JPEG and GIF. A WebP of two million columns and ten rows keeps its decoder busy for seconds.
MAX_SIDE_PIXELS = 65_535
MAX_FRAMES = 200
MAX_TOTAL_PIXELS = 100_000_000  # over all frames of an animation
MAX_METADATA_BYTES = 2 * 1024 * 1024  # color profiles, texts and the like, unpacked
MAX_PARTS_COUNT = 100_000  # chunks, segments, blocks or boxes

Content = mmap | bytes


class InvalidImage(Exception):
    """An image that is not accepted. The message continues a sentence that begins with the file's name."""


@dataclass(frozen=True, kw_only=True)
class ImageHeader:
    """The size in pixels and the number of frames that an image's header declares."""

    width: int
    height: int
    frames: int = 1


def check_limits(header: ImageHeader) -> None:
    """Raise InvalidImage where the declared size exceeds a limit or is empty."""
    pixels = header.width * header.height
    longer_side = max(header.width, header.height)
    if not pixels:
        raise InvalidImage("has no size.")
    if pixels > MAX_PIXELS:
        raise InvalidImage(f"has {pixels / 1e6:.0f} megapixels; the maximum is {MAX_PIXELS // 1_000_000}.")
    if longer_side > MAX_SIDE_PIXELS:
        raise InvalidImage(f"has a side of {longer_side} pixels; the maximum is {MAX_SIDE_PIXELS}.")
    if header.frames > MAX_FRAMES:
        raise InvalidImage(f"has more than {MAX_FRAMES} frames.")
    if pixels * header.frames > MAX_TOTAL_PIXELS:
        megapixels = MAX_TOTAL_PIXELS // 1_000_000
        raise InvalidImage(f"has too large an animation; the maximum is {megapixels} megapixels over all frames.")


class ImageBudget:
    """Counters of an image's parts, metadata and frames. Raises InvalidImage when one exceeds its limit."""

    def __init__(self) -> None:
        self._parts = 0
        self._metadata = 0
        self._frames = 0

    def add_part(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS_COUNT:
            raise InvalidImage("has too many parts.")

    def add_metadata(self, size: int) -> None:
        self._metadata += size
        if self._metadata > MAX_METADATA_BYTES:
            raise InvalidImage("has too much metadata: color profiles, texts or camera data.")

    def add_compressed_metadata(self, compressed: bytes) -> None:
        """Count deflated metadata by its unpacked size, unpacking at most one byte more than the limit."""
        self.add_metadata(len(zlib.decompressobj().decompress(compressed, MAX_METADATA_BYTES + 1)))

    def add_frame(self) -> None:
        self._frames += 1
        if self._frames > MAX_FRAMES:
            raise InvalidImage(f"has more than {MAX_FRAMES} frames.")
