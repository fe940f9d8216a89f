"""Tests of the limits that images keep to before they are decoded."""

import tempfile
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest

from commerce.attachments.images.limits import InvalidImage
from commerce.attachments.images.worker_client import ImageWorker
from tests.commerce.attachments.images import bombs
from tests.commerce.attachments.samples import TYPES, animation, image_file

pytestmark = pytest.mark.no_database

MAX_CPU_SECONDS = 1.0
MAX_MEMORY_BYTES = 32 * bombs.MEBIBYTE


@pytest.fixture(scope="module")
def other_process() -> Iterator[ProcessPoolExecutor]:
    """Yield a process whose memory is that of the images alone."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        yield pool


@pytest.fixture(scope="module")
def worker() -> Iterator[ImageWorker]:
    process = ImageWorker()
    yield process
    process.stop()


def size_of(worker: ImageWorker, content: bytes, content_type: str) -> tuple[int, int]:
    """Return the size of an image once it is rewritten."""
    with tempfile.TemporaryFile() as source, tempfile.TemporaryFile() as target:
        source.write(content)
        source.flush()
        return worker.rewrite(source, target, content_type)


@pytest.mark.parametrize("name", bombs.BOMBS)
def test_u1_decompression_bomb_is_refused_in_little_time_and_memory(other_process: ProcessPoolExecutor, name: str):
    reason, seconds, memory = other_process.submit(bombs.refuse, name).result()

    assert reason
    assert seconds < MAX_CPU_SECONDS
    assert memory < MAX_MEMORY_BYTES


@pytest.mark.parametrize("image_format", ["GIF", "WEBP", "PNG"])
def test_200_frames_are_accepted_and_201_are_not(worker: ImageWorker, image_format: str):
    assert size_of(worker, animation(image_format, 200), TYPES[image_format]) == (20, 10)
    with pytest.raises(InvalidImage, match="200 frames"):
        size_of(worker, animation(image_format, 201), TYPES[image_format])


@pytest.mark.parametrize(
    ("width", "height", "reason"),
    [
        (10_000, 5_000, "damaged"),  # within the limits, but it has no pixels
        (10_001, 5_000, "50 megapixels; the maximum is 50"),
        (65_535, 10, "damaged"),
        (65_536, 10, "the maximum is 65535"),
        (10, 2_000_000, "the maximum is 65535"),
    ],
)
def test_50_megapixels_and_sides_of_65535_are_the_maximum(worker: ImageWorker, width: int, height: int, reason: str):
    with pytest.raises(InvalidImage, match=reason):
        size_of(worker, bombs.png(width, height), "image/png")


@pytest.mark.parametrize(
    ("image_format", "metadata"),
    [
        ("JPEG", "icc_profile"),
        ("PNG", "exif"),
        ("GIF", "comment"),
        ("WEBP", "exif"),
        ("WEBP", "icc_profile"),
        ("AVIF", "icc_profile"),
    ],
)
def test_more_than_two_mebibytes_of_metadata_are_refused(worker: ImageWorker, image_format: str, metadata: str):
    content = image_file(image_format, 8, 8, **{metadata: b"a" * 3 * bombs.MEBIBYTE})

    with pytest.raises(InvalidImage, match="too much metadata"):
        size_of(worker, content, TYPES[image_format])


@pytest.mark.parametrize("image_format", TYPES)
def test_truncated_image_is_refused_or_has_its_size(worker: ImageWorker, image_format: str):
    content = image_file(image_format, 64, 64)

    for length in range(0, len(content), 1 + len(content) // 20):
        try:
            size = size_of(worker, content[:length], TYPES[image_format])
        except InvalidImage:
            continue
        assert size == (64, 64)
