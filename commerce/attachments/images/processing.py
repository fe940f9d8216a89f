"""Re-encoding and resizing of images with Pillow.

This module decodes untrusted input. It runs only in the child processes of `worker`, which have limits.
"""

import contextlib
import io
import re
import warnings
from collections.abc import Iterator, Sequence
from typing import IO, Any

from PIL import AvifImagePlugin, Image, ImageCms, ImageOps, ImageSequence

from commerce.attachments.images.limits import MAX_METADATA_BYTES, MAX_PIXELS, InvalidImage, check_limits

# Pillow itself lets twice as many pass with a warning.
Image.MAX_IMAGE_PIXELS = MAX_PIXELS
warnings.simplefilter("error", Image.DecompressionBombWarning)

# Pillow has dozens of decoders, and one of them starts Ghostscript.
_DECODERS = {"image/jpeg": "JPEG", "image/png": "PNG", "image/gif": "GIF", "image/webp": "WEBP", "image/avif": "AVIF"}
_STILL_OPTIONS: dict[str, dict[str, Any]] = {
    "JPEG": {"quality": 90},
    "PNG": {"compress_level": 4},
    "GIF": {},
    "WEBP": {"quality": 90, "method": 2},
    "AVIF": {"quality": 80, "speed": 9, "max_threads": 1},
}
_ANIMATION_OPTIONS: dict[str, dict[str, Any]] = {
    "PNG": {"blend": 0, "compress_level": 4},
    "GIF": {"disposal": 2},
    "WEBP": {"quality": 90, "method": 0},
}
_LOSSLESS_WEBP_OPTIONS = {"lossless": True, "quality": 50, "method": 2}
_SMALL_COPY_OPTIONS: dict[str, dict[str, Any]] = {
    "webp": {"quality": 80, "method": 4},
    "avif": {"quality": 60, "speed": 9, "max_threads": 1},
}


def rewrite(source: IO[bytes], content_type: str) -> tuple[bytes, int, int]:
    """Return the image re-encoded in its own format, upright and without metadata, with its width and height.

    Animations keep their frames, except those of AVIF. Raises InvalidImage for one that exceeds a limit, from its
    header, and what Pillow raises for a damaged one.
    """
    decoder = _DECODERS[content_type]
    with _refuse_bombs(), Image.open(source, formats=[decoder]) as image:
        frames = 1 if decoder == "JPEG" else getattr(image, "n_frames", 1)  # other pictures in a JPEG are not kept
        check_limits(*image.size, frames)
        if sum(len(value) for value in image.info.values() if isinstance(value, bytes | str)) > MAX_METADATA_BYTES:
            raise InvalidImage("has too much metadata: color profiles, texts or camera data.")
        output = io.BytesIO()
        if decoder in _ANIMATION_OPTIONS and frames > 1:
            size = _save_animation(image, output, decoder)
        else:
            size = _save_still(image, output, decoder, is_lossless=_is_lossless_webp(source))
        return output.getvalue(), *size


@contextlib.contextmanager
def _refuse_bombs() -> Iterator[None]:
    """Raise InvalidImage where Pillow finds a declared size too large, which its error gives in pixels."""
    try:
        yield
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        check_limits(int(re.findall(r"\d+", str(error))[0]), 1, 1)
        raise


def make_sizes(source: IO[bytes], content_type: str, sizes: Sequence[tuple[int, int, str]]) -> list[bytes]:
    """Return copies of the first frame, each of exactly one of these widths, heights and formats, `webp` or `avif`.

    A copy is empty where this Pillow was built without AVIF.
    """
    with Image.open(source, formats=[_DECODERS[content_type]]) as image:
        image.draft("RGB", max(sizes)[:2])  # lets a JPEG be decoded at about the size that is needed
        original = _to_copy_mode(_strip(image))
        return [_small_copy(original, *size) for size in sizes]


def _small_copy(original: Image.Image, width: int, height: int, copy_format: str) -> bytes:
    if copy_format == "avif" and not AvifImagePlugin.SUPPORTED:
        return b""
    output = io.BytesIO()
    small = original.resize((width, height), Image.Resampling.LANCZOS, reducing_gap=3.0)
    small.save(output, copy_format.upper(), **_SMALL_COPY_OPTIONS[copy_format])
    return output.getvalue()


def _to_copy_mode(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # 16-bit grayscale
        image = image.point(lambda value: value / 256).convert("L")
    has_alpha = "A" in image.mode or "transparency" in image.info
    return image.convert("RGBA" if has_alpha else "RGB")


def _save_still(image: Image.Image, output: IO[bytes], decoder: str, *, is_lossless: bool) -> tuple[int, int]:
    options = _STILL_OPTIONS[decoder]
    if decoder == "JPEG" and image.mode in ("L", "RGB"):
        # Finer quantization tables than the original's would make the file larger and no better.
        options = {"qtables": image.quantization}  # type: ignore[attr-defined]
    elif decoder == "WEBP" and is_lossless:
        options = _LOSSLESS_WEBP_OPTIONS
    stripped = _strip(image)
    stripped.save(output, decoder, **options)
    return stripped.size


def _is_lossless_webp(source: IO[bytes]) -> bool:
    """Return whether a WebP file has a lossless bitstream, which Pillow does not expose."""
    at = source.tell()
    source.seek(0)
    is_lossless = b"VP8L" in source.read(64 * 1024)
    source.seek(at)
    return is_lossless


def _strip(image: Image.Image) -> Image.Image:
    """Return the image upright, in sRGB and without metadata."""
    ImageOps.exif_transpose(image, in_place=True)
    profile = image.info.get("icc_profile")
    image.info = {name: value for name, value in image.info.items() if name == "transparency"}
    if image.mode in ("RGB", "CMYK") and profile:
        return _convert_to_srgb(image, profile)
    return image.convert("RGB") if image.mode == "CMYK" else image


def _convert_to_srgb(image: Image.Image, profile: bytes) -> Image.Image:
    """Return the image with its colors converted from this profile to sRGB. An invalid profile is ignored."""
    try:
        source, target = ImageCms.ImageCmsProfile(io.BytesIO(profile)), ImageCms.createProfile("sRGB")
        converted = ImageCms.profileToProfile(image, source, target, outputMode="RGB")
    except (ImageCms.PyCMSError, OSError, ValueError):
        converted = None
    result = converted or image.convert("RGB")
    result.info.pop("icc_profile", None)
    return result


def _save_animation(image: Image.Image, output: IO[bytes], decoder: str) -> tuple[int, int]:
    frames: list[Image.Image] = []
    durations = []
    for frame in ImageSequence.Iterator(image):
        check_limits(*frame.size, len(frames) + 1)  # a frame of a GIF may be larger than its screen
        frames.append(_full_frame(frame))
        durations.append(int(frame.info.get("duration") or 0))  # known once the frame is decoded
    options = _ANIMATION_OPTIONS[decoder] | {"save_all": True, "append_images": frames[1:], "duration": durations}
    if "loop" in image.info:
        options["loop"] = int(image.info["loop"])
    frames[0].save(output, decoder, **options)
    return frames[0].size


def _full_frame(frame: Image.Image) -> Image.Image:
    """Return a frame as it is displayed. The encoder computes the difference from the frame before."""
    full_frame = frame.convert("RGBA")
    full_frame.info = {}
    return full_frame
