"""Valid sample files of every supported type."""

import io
import zipfile
from typing import Any

from PIL import Image

TYPES = {"JPEG": "image/jpeg", "PNG": "image/png", "GIF": "image/gif", "WEBP": "image/webp", "AVIF": "image/avif"}


def gradient(width: int = 60, height: int = 40, mode: str = "RGB") -> Image.Image:
    """Return a gradient with a red block at its top left, which shows its orientation."""
    base = Image.linear_gradient("L").resize((width, height)).convert(mode)
    corner = Image.new("RGB", (width // 4, height // 4), (255, 0, 0)).convert(mode)
    base.paste(corner, (0, 0))
    return base


def encode(image: Image.Image, image_format: str, **options: Any) -> bytes:
    written = io.BytesIO()
    image.save(written, image_format, **options)
    return written.getvalue()


def image_file(image_format: str = "PNG", width: int = 60, height: int = 40, **options: Any) -> bytes:
    return encode(gradient(width, height), image_format, **options)


def animation(image_format: str, frames: int, width: int = 20, height: int = 10, duration: int = 50) -> bytes:
    """Return an animation whose frames all differ."""
    images = [Image.new("RGB", (width, height), (number * 7 % 256, number % 256, 0)) for number in range(frames)]
    return encode(images[0], image_format, save_all=True, append_images=images[1:], duration=duration, loop=0)


def pdf_file() -> bytes:
    return b"%PDF-1.7\n1 0 obj\n<< /Type /Catalog >>\nendobj\ntrailer << /Root 1 0 R >>\nstartxref\n0\n%%EOF\n"


def zip_file(**entries: bytes) -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in (entries or {"readme.txt": b"hello"}).items():
            archive.writestr(name, content)
    return written.getvalue()


def epub_file() -> bytes:
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        archive.writestr(zipfile.ZipInfo("mimetype"), "application/epub+zip")
        archive.writestr("META-INF/container.xml", "<container/>")
    return written.getvalue()
