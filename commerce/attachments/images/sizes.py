"""Sizes and formats of an image's smaller copies: all are WebP, and the variants are AVIF as well."""

from dataclasses import dataclass, replace

THUMBNAIL_NAME = "thumbnail"
THUMBNAIL_BOX = (368, 232)  # pixels
VARIANT_WIDTHS = (320, 640, 1280)  # pixels
MAX_AVIF_PIXELS = 4_000_000  # a copy as tall as WebP allows, 1280 x 16383, doubled the time of all copies


@dataclass(frozen=True, kw_only=True)
class ImageSize:
    """Name, width and height of a smaller copy, in pixels, and its format."""

    name: str
    width: int
    height: int
    format: str = "webp"

    @property
    def file_name(self) -> str:
        return f"{self.name}.{self.format}"


def all_sizes(width: int, height: int) -> list[ImageSize]:
    """Return the thumbnail's size and those of the variants of an image of this size, in both formats."""
    variants = variant_sizes(width, height)
    return [thumbnail_size(width, height), *variants, *filter(None, map(as_avif, variants))]


def thumbnail_size(width: int, height: int) -> ImageSize:
    """Return the size that fits THUMBNAIL_BOX. A smaller image keeps its size."""
    scale = min(1.0, THUMBNAIL_BOX[0] / width, THUMBNAIL_BOX[1] / height)
    return _scale(THUMBNAIL_NAME, width, height, scale)


def variant_sizes(width: int, height: int) -> list[ImageSize]:
    """Return a size for each of VARIANT_WIDTHS that is smaller than the image."""
    return [_scale(f"w{variant}", width, height, variant / width) for variant in VARIANT_WIDTHS if variant < width]


def as_avif(size: ImageSize) -> ImageSize | None:
    """Return the same size as AVIF, or None above MAX_AVIF_PIXELS."""
    return replace(size, format="avif") if size.width * size.height <= MAX_AVIF_PIXELS else None


def _scale(name: str, width: int, height: int, scale: float) -> ImageSize:
    return ImageSize(name=name, width=max(1, round(width * scale)), height=max(1, round(height * scale)))
