"""Tests of the re-encoding and resizing of images, through the worker process."""

import io
import os
import random
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import IO, Any

import psutil
import pytest
from PIL import Image, ImageCms, PngImagePlugin

from commerce.attachments.images.limits import InvalidImage
from commerce.attachments.images.worker_client import ImageWorker
from tests.commerce.attachments.images.mutations import mutated, samples
from tests.commerce.attachments.samples import TYPES, animation, encode, gradient, image_file

pytestmark = pytest.mark.no_database

# Metadata that identifies the photographer. None of it may remain, whatever part of the file it was in.
SECRETS = (b"Canary Camera", b"canary-xmp", b"canary text", b"canary comment", b"51.4778")
MUTATIONS_PER_SAMPLE = 50  # for each of ten samples; `deploy/run bench images` tries a hundred thousand


@pytest.fixture(scope="module")
def worker() -> Iterator[ImageWorker]:
    process = ImageWorker()
    yield process
    process.stop()


def temporary_file(content: bytes = b"") -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the test
    file.write(content)
    file.flush()
    return file


def rewrite(worker: ImageWorker, content: bytes, content_type: str) -> bytes:
    with temporary_file(content) as source, temporary_file() as target:
        worker.rewrite(source, target, content_type)
        target.seek(0)
        return target.read()


def image_with_metadata(image_format: str, orientation: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = orientation
    exif[0x010F] = "Canary Camera"
    gps = exif.get_ifd(0x8825)
    gps[1], gps[2], gps[29] = "N", (51.0, 28.0, 40.0), "51.4778"
    options: dict[str, Any] = {"exif": exif, "xmp": b"<x>canary-xmp</x>", "comment": b"canary comment"}
    if image_format == "PNG":
        options = {"exif": exif, "pnginfo": PngImagePlugin.PngInfo()}
        options["pnginfo"].add_text("Author", "canary text")
        options["pnginfo"].add_itxt("XML:com.adobe.xmp", "canary-xmp")
    if image_format == "GIF":
        options = {"comment": b"canary comment"}
    return image_file(image_format, 64, 48, **options)


@pytest.mark.parametrize("image_format", TYPES)
@pytest.mark.parametrize("orientation", [1, 3, 6, 8])
def test_u10_metadata_is_removed(worker: ImageWorker, image_format: str, orientation: int):
    before = image_with_metadata(image_format, orientation)
    assert any(secret in before for secret in SECRETS)

    after = rewrite(worker, before, TYPES[image_format])

    assert not [secret for secret in SECRETS if secret in after]
    with Image.open(io.BytesIO(after)) as image:
        assert image.format == image_format
        assert dict(image.getexif()) == {}
        assert image.getexif().get_ifd(0x8825) == {}
        is_turned = orientation in (6, 8) and image_format != "GIF"  # GIF has no place for it
        assert image.size == ((48, 64) if is_turned else (64, 48))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_png_of_each_mode_keeps_its_pixels(worker: ImageWorker, mode: str):
    image = gradient(50, 30, "L" if mode == "I;16" else mode)
    if mode == "I;16":
        image = Image.frombytes("I;16", (50, 30), bytes(range(250)) * 12)
    before = encode(image, "PNG")

    after = rewrite(worker, before, "image/png")

    with Image.open(io.BytesIO(before)) as first, Image.open(io.BytesIO(after)) as second:
        assert (first.mode, first.tobytes()) == (second.mode, second.tobytes())


def test_transparent_palette_stays_transparent(worker: ImageWorker):
    image = gradient(50, 30).quantize(16)
    before = encode(image, "PNG", transparency=3)

    with Image.open(io.BytesIO(rewrite(worker, before, "image/png"))) as after:
        assert after.convert("RGBA").tobytes() == Image.open(io.BytesIO(before)).convert("RGBA").tobytes()


def test_cmyk_jpeg_becomes_rgb(worker: ImageWorker):
    after = rewrite(worker, encode(gradient(50, 30).convert("CMYK"), "JPEG"), "image/jpeg")

    with Image.open(io.BytesIO(after)) as image:
        assert image.mode == "RGB"


def test_colors_are_converted_to_srgb(worker: ImageWorker):
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()  # for no RGB: let go
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()

    for icc_profile in (profile, srgb, b"no profile at all"):
        after = rewrite(worker, image_file("PNG", icc_profile=icc_profile), "image/png")
        with Image.open(io.BytesIO(after)) as image:
            assert "icc_profile" not in image.info
            red, green, blue = image.convert("RGB").getpixel((2, 2))  # type: ignore[misc]
            assert red > 250
            assert max(green, blue) < 5


@pytest.mark.parametrize("image_format", ["GIF", "WEBP", "PNG"])
def test_animation_keeps_its_frames_and_durations(worker: ImageWorker, image_format: str):
    after = rewrite(worker, animation(image_format, 12, duration=80), TYPES[image_format])

    with Image.open(io.BytesIO(after)) as image:
        assert image.n_frames == 12  # type: ignore[attr-defined]
        for number in range(12):
            image.seek(number)
            image.load()
            assert image.info["duration"] == 80


def test_smaller_copy_has_exactly_the_requested_size_and_format(worker: ImageWorker):
    for image_format, content_type in TYPES.items():
        with (
            temporary_file(image_file(image_format, 900, 600)) as source,
            temporary_file() as first,
            temporary_file() as second,
        ):
            worker.make_sizes(source, [first, second], content_type, [(348, 232, "webp"), (320, 213, "avif")])
            for target, form in ((first, ("WEBP", (348, 232))), (second, ("AVIF", (320, 213)))):
                with Image.open(target) as small:
                    assert (small.format, small.size) == form


def test_killed_child_refuses_its_image_and_the_next_image_is_accepted(worker: ImageWorker):
    rewrite(worker, image_file(), "image/png")
    process = psutil.Process(worker._process.pid)  # type: ignore[union-attr]
    while process.children():
        time.sleep(0.01)
    killer = threading.Thread(target=_kill_next_child, args=[process])
    killer.start()

    with pytest.raises(InvalidImage):
        rewrite(worker, image_file("PNG", 6000, 4000), "image/png")

    killer.join()
    assert rewrite(worker, image_file(), "image/png").startswith(b"\x89PNG")


def _kill_next_child(process: psutil.Process) -> None:
    while not (children := process.children()):
        time.sleep(0.001)
    children[0].kill()


def test_killed_worker_is_restarted(worker: ImageWorker):
    rewrite(worker, image_file(), "image/png")
    os.kill(worker._process.pid, signal.SIGKILL)  # type: ignore[union-attr]

    assert rewrite(worker, image_file(), "image/png").startswith(b"\x89PNG")


def test_stop_ends_the_process(worker: ImageWorker):
    stopped = ImageWorker()
    rewrite(stopped, image_file(), "image/png")
    process = psutil.Process(stopped._process.pid)  # type: ignore[union-attr]

    stopped.stop()

    assert not process.is_running()


def test_concurrent_threads_get_their_own_replies(worker: ImageWorker):
    sizes: dict[int, tuple[int, int]] = {}

    def rewrite_one(width: int) -> None:
        with temporary_file(image_file("PNG", width, 10)) as source, temporary_file() as target:
            sizes[width] = worker.rewrite(source, target, "image/png", user=str(width))

    threads = [threading.Thread(target=rewrite_one, args=[width]) for width in range(10, 30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sizes == {width: (width, 10) for width in range(10, 30)}


def test_u11_mutated_images_are_refused_or_accepted_without_a_crash(worker: ImageWorker):
    dice = random.Random(11)
    counts = {"accepted": 0, "refused": 0}

    for content_type, content in samples():
        for _ in range(MUTATIONS_PER_SAMPLE):
            counts[_try(worker, mutated(content, dice), content_type)] += 1

    assert sum(counts.values()) == len(samples()) * MUTATIONS_PER_SAMPLE
    assert min(counts.values()) > 0


def _try(worker: ImageWorker, content: bytes, content_type: str) -> str:
    try:
        rewrite(worker, content, content_type)
    except InvalidImage:
        return "refused"
    return "accepted"
