"""Limits of the images that are accepted."""

MAX_PIXELS = 50_000_000
# The maximum of JPEG and GIF. A WebP of two million columns and ten rows keeps its decoder busy for seconds.
MAX_SIDE_PIXELS = 65_535
MAX_FRAMES = 200
MAX_TOTAL_PIXELS = 100_000_000  # over all frames of an animation
MAX_METADATA_BYTES = 2 * 1024 * 1024  # color profiles, texts and the like, unpacked


class InvalidImage(Exception):
    """An image that is not accepted. The message continues a sentence that begins with the file's name."""


def check_limits(width: int, height: int, frames: int) -> None:
    """Raise InvalidImage where an image of this size, in pixels, and with so many frames exceeds a limit."""
    pixels, longer_side = width * height, max(width, height)
    if pixels > MAX_PIXELS:
        raise InvalidImage(f"has {pixels / 1e6:.0f} megapixels; the maximum is {MAX_PIXELS // 1_000_000}.")
    if longer_side > MAX_SIDE_PIXELS:
        raise InvalidImage(f"has a side of {longer_side} pixels; the maximum is {MAX_SIDE_PIXELS}.")
    if frames > MAX_FRAMES:
        raise InvalidImage(f"has more than {MAX_FRAMES} frames.")
    if pixels * frames > MAX_TOTAL_PIXELS:
        megapixels = MAX_TOTAL_PIXELS // 1_000_000
        raise InvalidImage(f"has too large an animation; the maximum is {megapixels} megapixels over all frames.")
