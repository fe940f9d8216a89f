"""Tests of the image headers and of the limits that they enforce before decoding."""

import time
import tracemalloc
from collections.abc import Callable

import pytest

from commerce.attachments.images.headers import read_header
from commerce.attachments.images.limits import ImageHeader, InvalidImage
from tests.commerce.attachments.conftest import Upload
from tests.commerce.attachments.images import bombs
from tests.commerce.attachments.samples import TYPES, animation, image_file

pytestmark = pytest.mark.no_database

MEBIBYTE = 1024 * 1024
MAX_CPU_SECONDS = 1.0

BOMBS: dict[str, tuple[str, Callable[[], bytes]]] = {
    "PNG of 174 megapixels": ("image/png", lambda: bombs.png_of_174_megapixels()),
    "PNG that says 4 gigapixels": ("image/png", lambda: bombs.png(65_535, 65_535)),
    "PNG without height": ("image/png", lambda: bombs.png(10, 0)),
    "APNG of 10,000 frames": ("image/png", lambda: bombs.apng_of_frames(10_000)),
    "PNG with a text of 100 MiB": ("image/png", lambda: bombs.png_with_packed_text(100 * MEBIBYTE)),
    "PNG with an international text of 100 MiB": (
        "image/png",
        lambda: bombs.png_with_packed_international_text(100 * MEBIBYTE),
    ),
    "PNG with a profile of 100 MiB": ("image/png", lambda: bombs.png_with_packed_profile(100 * MEBIBYTE)),
    "PNG with 3 MiB of EXIF": ("image/png", lambda: bombs.png_with_large_exif(3 * MEBIBYTE)),
    "PNG of 110,000 chunks": ("image/png", lambda: bombs.png_of_parts(110_000)),
    "JPEG with 3 MiB of EXIF": ("image/jpeg", lambda: bombs.jpeg_with_large_exif(3 * MEBIBYTE)),
    "GIF of 10,000 frames": ("image/gif", lambda: bombs.gif(10, 10, 10_000)),
    "GIF of 60,000 x 60,000": ("image/gif", lambda: bombs.gif(60_000, 60_000, 1)),
    "GIF with a frame larger than its screen": ("image/gif", lambda: bombs.gif_with_oversized_frame(60_000, 60_000)),
    "GIF of a million blocks": ("image/gif", lambda: bombs.gif(10, 10, 1, b"\x02" + b"\x01a" * 1_000_000 + b"\0")),
    "GIF of 200 frames of 1,000 x 1,000": ("image/gif", lambda: bombs.gif(1000, 1000, 200)),
    "WebP of 10,000 frames": ("image/webp", lambda: bombs.webp(10, 10, bombs.webp_chunk(b"ANMF", b"a" * 24) * 10_000)),
    "WebP of 16,383 x 16,383": ("image/webp", lambda: bombs.webp(16_383, 16_383)),
    "WebP with 3 MiB of EXIF": (
        "image/webp",
        lambda: bombs.webp(10, 10, bombs.webp_chunk(b"EXIF", b"a" * 3 * MEBIBYTE)),
    ),
    "WebP of a million chunks": ("image/webp", lambda: bombs.webp(10, 10, bombs.webp_chunk(b"ALPH", b"") * 1_000_000)),
    "AVIF of 60,000 x 60,000": ("image/avif", lambda: bombs.avif(60_000, 60_000)),
    "AVIF of 10,000 frames": ("image/avif", lambda: bombs.avif(10, 10, samples=10_000)),
    "AVIF of boxes in boxes": ("image/avif", lambda: bombs.avif_of_nested_boxes(1000)),
    "AVIF without a size": ("image/avif", lambda: bombs.avif_of_nested_boxes(1)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_u1_decompression_bomb_is_refused_by_its_header_with_little_memory(name: str):
    content_type, make = BOMBS[name]
    content = make()

    tracemalloc.start()
    began = time.process_time()
    with pytest.raises(InvalidImage):
        read_header(content, content_type)
    took = time.process_time() - began
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert peak < 10 * 32 * MEBIBYTE
    assert peak < 3 * len(content) + 8 * MEBIBYTE
    assert took < 10 * MAX_CPU_SECONDS  # tracemalloc slows it down


def test_u1_decompression_bomb_gets_422_naming_the_file(upload: Upload):
    response = upload(("holiday.png", bombs.png_of_174_megapixels()))

    assert response.status_code == 422
    assert response.json()["message"] == "holiday.png has 174 megapixels; the maximum is 50."


@pytest.mark.parametrize("image_format", TYPES)
def test_header_has_the_size_of_the_image(image_format: str):
    content = image_file(image_format, 123, 45)

    assert read_header(content, TYPES[image_format]) == ImageHeader(width=123, height=45)


def test_header_of_lossless_webp_has_its_size():
    assert read_header(image_file("WEBP", 123, 45, lossless=True), "image/webp") == ImageHeader(width=123, height=45)


@pytest.mark.parametrize("image_format", ["GIF", "WEBP", "PNG"])
def test_header_has_the_frame_count_of_an_animation(image_format: str):
    content = animation(image_format, 12, width=30, height=20)

    assert read_header(content, TYPES[image_format]) == ImageHeader(width=30, height=20, frames=12)


@pytest.mark.parametrize("image_format", ["GIF", "WEBP", "PNG"])
def test_200_frames_are_accepted_and_201_are_not(image_format: str):
    assert read_header(animation(image_format, 200), TYPES[image_format]).frames == 200
    with pytest.raises(InvalidImage, match="200 frames"):
        read_header(animation(image_format, 201), TYPES[image_format])


def test_50_megapixels_are_accepted_and_more_are_not():
    assert read_header(bombs.png(10_000, 5_000), "image/png").width == 10_000
    with pytest.raises(InvalidImage, match="50 megapixels; the maximum is 50"):
        read_header(bombs.png(10_001, 5_000), "image/png")


def test_side_of_65535_pixels_is_accepted_and_longer_is_not():
    assert read_header(bombs.png(65_535, 10), "image/png").width == 65_535
    for width, height in ((65_536, 10), (10, 2_000_000)):
        with pytest.raises(InvalidImage, match="the maximum is 65535"):
            read_header(bombs.png(width, height), "image/png")


@pytest.mark.parametrize("image_format", TYPES)
def test_truncated_image_has_a_correct_header_or_is_refused(image_format: str):
    content = image_file(image_format, 64, 64)

    for length in range(0, len(content), 7):
        try:
            header = read_header(content[:length], TYPES[image_format])
        except InvalidImage:
            continue
        assert (header.width, header.height) == (64, 64)
