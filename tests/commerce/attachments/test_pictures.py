"""Pictures written again, in the process that opens them."""

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

from commerce.attachments.image_headers import BadImage, read_header
from commerce.attachments.picture_process import PictureProcess
from tests.commerce.attachments.mutations import mutated, samples
from tests.commerce.attachments.samples import TYPES, animation, encoded, image_file, picture

# What can be told of a picture's maker: each must be gone, wherever it stood.
SECRETS = (b"Canary Camera", b"canary-xmp", b"canary text", b"canary comment", b"51.4778")
EVERYDAY_MUTATIONS = 200  # of each of ten samples; `deploy/run bench pictures` tries a hundred thousand


@pytest.fixture(scope="module")
def pictures() -> Iterator[PictureProcess]:
    process = PictureProcess()
    yield process
    process.stop()


def temporary(content: bytes = b"") -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the test
    file.write(content)
    file.flush()
    return file


def rewritten(pictures: PictureProcess, content: bytes, content_type: str) -> bytes:
    with temporary(content) as source, temporary() as target:
        pictures.rewrite(source, target, content_type)
        target.seek(0)
        return target.read()


def with_metadata(image_format: str, turned: int) -> bytes:
    exif = Image.Exif()
    exif[0x0112] = turned
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
@pytest.mark.parametrize("turned", [1, 3, 6, 8])
def test_u10_no_metadata_is_left(pictures: PictureProcess, image_format: str, turned: int):
    before = with_metadata(image_format, turned)
    assert any(secret in before for secret in SECRETS)

    after = rewritten(pictures, before, TYPES[image_format])

    assert not [secret for secret in SECRETS if secret in after]
    with Image.open(io.BytesIO(after)) as image:
        assert image.format == image_format
        assert dict(image.getexif()) == {}
        assert image.getexif().get_ifd(0x8825) == {}
        is_turned = turned in (6, 8) and image_format != "GIF"  # GIF has no place for it
        assert image.size == ((48, 64) if is_turned else (64, 48))


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "I;16"])
def test_every_kind_of_png_keeps_its_pixels(pictures: PictureProcess, mode: str):
    image = picture(50, 30, "L" if mode == "I;16" else mode)
    if mode == "I;16":
        image = Image.frombytes("I;16", (50, 30), bytes(range(250)) * 12)
    before = encoded(image, "PNG")

    after = rewritten(pictures, before, "image/png")

    with Image.open(io.BytesIO(before)) as first, Image.open(io.BytesIO(after)) as second:
        assert (first.mode, first.tobytes()) == (second.mode, second.tobytes())


def test_a_transparent_palette_stays_transparent(pictures: PictureProcess):
    image = picture(50, 30).quantize(16)
    before = encoded(image, "PNG", transparency=3)

    with Image.open(io.BytesIO(rewritten(pictures, before, "image/png"))) as after:
        assert after.convert("RGBA").tobytes() == Image.open(io.BytesIO(before)).convert("RGBA").tobytes()


def test_a_jpeg_for_print_becomes_one_for_screens(pictures: PictureProcess):
    after = rewritten(pictures, encoded(picture(50, 30).convert("CMYK"), "JPEG"), "image/jpeg")

    with Image.open(io.BytesIO(after)) as image:
        assert image.mode == "RGB"


def test_colours_of_a_profile_are_made_the_ones_that_every_screen_knows(pictures: PictureProcess):
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")).tobytes()  # for no RGB: let go
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()

    for icc_profile in (profile, srgb, b"no profile at all"):
        after = rewritten(pictures, image_file("PNG", icc_profile=icc_profile), "image/png")
        with Image.open(io.BytesIO(after)) as image:
            assert "icc_profile" not in image.info
            red, green, blue = image.convert("RGB").getpixel((2, 2))  # type: ignore[misc]
            assert red > 250
            assert max(green, blue) < 5


@pytest.mark.parametrize("image_format", ["GIF", "WEBP", "PNG"])
def test_an_animation_keeps_its_frames_and_their_times(pictures: PictureProcess, image_format: str):
    after = rewritten(pictures, animation(image_format, 12, duration=80), TYPES[image_format])

    with Image.open(io.BytesIO(after)) as image:
        assert image.n_frames == 12  # type: ignore[attr-defined]
        for number in range(12):
            image.seek(number)
            image.load()
            assert image.info["duration"] == 80


def test_a_smaller_copy_has_exactly_the_size_that_was_asked(pictures: PictureProcess):
    for image_format, content_type in TYPES.items():
        with temporary(image_file(image_format, 900, 600)) as source, temporary() as first, temporary() as second:
            pictures.make_sizes(source, [first, second], content_type, [(348, 232), (320, 213)])
            for target, size in ((first, (348, 232)), (second, (320, 213))):
                with Image.open(target) as small:
                    assert (small.format, small.size) == ("WEBP", size)


def test_a_child_that_is_killed_refuses_its_picture_and_the_next_is_opened(pictures: PictureProcess):
    rewritten(pictures, image_file(), "image/png")
    server = psutil.Process(pictures._server.pid)  # type: ignore[union-attr]
    while server.children():
        time.sleep(0.01)
    killer = threading.Thread(target=_kill_next_child, args=[server])
    killer.start()

    with pytest.raises(BadImage):
        rewritten(pictures, image_file("PNG", 6000, 4000), "image/png")

    killer.join()
    assert rewritten(pictures, image_file(), "image/png").startswith(b"\x89PNG")


def _kill_next_child(server: psutil.Process) -> None:
    while not (children := server.children()):
        time.sleep(0.001)
    children[0].kill()


def test_a_server_that_is_killed_is_started_again(pictures: PictureProcess):
    rewritten(pictures, image_file(), "image/png")
    os.kill(pictures._server.pid, signal.SIGKILL)  # type: ignore[union-attr]

    assert rewritten(pictures, image_file(), "image/png").startswith(b"\x89PNG")


def test_a_stopped_process_leaves_no_server(pictures: PictureProcess):
    process = PictureProcess()
    rewritten(process, image_file(), "image/png")
    server = psutil.Process(process._server.pid)  # type: ignore[union-attr]

    process.stop()

    assert not server.is_running()


def test_many_threads_get_each_their_own_answer(pictures: PictureProcess):
    answers: dict[int, tuple[int, int]] = {}

    def ask(width: int) -> None:
        with temporary(image_file("PNG", width, 10)) as source, temporary() as target:
            answers[width] = pictures.rewrite(source, target, "image/png")

    threads = [threading.Thread(target=ask, args=[width]) for width in range(10, 30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert answers == {width: (width, 10) for width in range(10, 30)}


def test_u11_mutated_images_are_refused_or_taken_and_never_crash_us(pictures: PictureProcess):
    dice = random.Random(11)
    counts = {"taken": 0, "refused": 0}

    for content_type, content in samples():
        for _ in range(EVERYDAY_MUTATIONS):
            counts[_try(pictures, mutated(content, dice), content_type)] += 1

    assert sum(counts.values()) == len(samples()) * EVERYDAY_MUTATIONS
    assert min(counts.values()) > 0


def _try(pictures: PictureProcess, content: bytes, content_type: str) -> str:
    try:
        read_header(content, content_type)
        rewritten(pictures, content, content_type)
    except BadImage:
        return "refused"
    return "taken"
