"""Sizes of an image's smaller copies. All copies are WebP."""

from dataclasses import dataclass

THUMBNAIL_NAME = "thumbnail"
THUMBNAIL_BOX = (368, 232)  # pixels
VARIANT_WIDTHS = (320, 640, 1280)  # pixels


@dataclass(frozen=True, kw_only=True)
class ImageSize:
    """Name, width and height of a smaller copy, in pixels."""

    name: str
    width: int
    height: int

    @property
    def file_name(self) -> str:
        return f"{self.name}.webp"


def all_sizes(width: int, height: int) -> list[ImageSize]:
    """Return the thumbnail's size and those of the variants of an image of this size."""
    return [thumbnail_size(width, height), *variant_sizes(width, height)]


def thumbnail_size(width: int, height: int) -> ImageSize:
    """Return the size that fits THUMBNAIL_BOX. A smaller image keeps its size."""
    scale = min(1.0, THUMBNAIL_BOX[0] / width, THUMBNAIL_BOX[1] / height)
    return _scale(THUMBNAIL_NAME, width, height, scale)


def variant_sizes(width: int, height: int) -> list[ImageSize]:
    """Return a size for each of VARIANT_WIDTHS that is smaller than the image."""
    return [_scale(f"w{variant}", width, height, variant / width) for variant in VARIANT_WIDTHS if variant < width]


def _scale(name: str, width: int, height: int, scale: float) -> ImageSize:
    return ImageSize(name=name, width=max(1, round(width * scale)), height=max(1, round(height * scale)))
