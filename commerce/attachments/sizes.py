"""The smaller copies that are made of an image. All are WebP."""

from dataclasses import dataclass

THUMBNAIL = "thumbnail"
THUMBNAIL_BOX = (368, 232)
VARIANT_WIDTHS = (320, 640, 1280)


@dataclass(frozen=True, kw_only=True)
class Size:
    """A copy, by name and in pixels."""

    name: str
    width: int
    height: int

    @property
    def file_name(self) -> str:
        return f"{self.name}.webp"


def sizes_of(width: int, height: int) -> list[Size]:
    """The thumbnail, and a variant for each width that is smaller than the image."""
    return [thumbnail_of(width, height), *variants_of(width, height)]


def thumbnail_of(width: int, height: int) -> Size:
    """Fits the box; an image that fits already keeps its size."""
    scale = min(1.0, THUMBNAIL_BOX[0] / width, THUMBNAIL_BOX[1] / height)
    return _scaled(THUMBNAIL, width, height, scale)


def variants_of(width: int, height: int) -> list[Size]:
    return [_scaled(f"w{narrower}", width, height, narrower / width) for narrower in VARIANT_WIDTHS if narrower < width]


def _scaled(name: str, width: int, height: int, scale: float) -> Size:
    return Size(name=name, width=max(1, round(width * scale)), height=max(1, round(height * scale)))
