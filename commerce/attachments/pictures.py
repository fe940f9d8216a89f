"""What is done to a picture: opened, turned upright, freed of all that is not picture, written again, made smaller.

Runs in a process of its own with limits (`picture_process`), since it decodes what strangers send.
"""

import io
import warnings
from collections.abc import Sequence
from typing import IO, Any

from PIL import Image, ImageCms, ImageOps, ImageSequence

from commerce.attachments.image_headers import MOST_FRAMES, MOST_PIXELS

Image.MAX_IMAGE_PIXELS = MOST_PIXELS
warnings.simplefilter("error", Image.DecompressionBombWarning)

# Only these decoders: Pillow has dozens, and one of them starts Ghostscript.
_DECODERS = {"image/jpeg": "JPEG", "image/png": "PNG", "image/gif": "GIF", "image/webp": "WEBP", "image/avif": "AVIF"}
_STILL: dict[str, dict[str, Any]] = {
    "JPEG": {"quality": 90},
    "PNG": {"compress_level": 4},
    "GIF": {},
    "WEBP": {"quality": 90, "method": 2},
    "AVIF": {"quality": 80, "speed": 9, "max_threads": 1},
}
_MOVING: dict[str, dict[str, Any]] = {
    "PNG": {"blend": 0, "compress_level": 4},
    "GIF": {"disposal": 2},
    "WEBP": {"quality": 90, "method": 0},
}
_LOSSLESS_WEBP = {"lossless": True, "quality": 50, "method": 2}
_SMALL = {"quality": 80, "method": 4}


def rewrite(source: IO[bytes], content_type: str) -> tuple[bytes, int, int]:
    """The picture again, upright and without metadata, in its own format; with its width and height.

    Animations keep their frames, but those of AVIF. Raises what Pillow raises for a file that is no such picture.
    """
    decoder = _DECODERS[content_type]
    with Image.open(source, formats=[decoder]) as image:
        written = io.BytesIO()
        if decoder in _MOVING and getattr(image, "n_frames", 1) > 1:
            size = _save_animation(image, written, decoder)
        else:
            size = _save_still(image, written, decoder, is_lossless=_is_lossless(source))
        return written.getvalue(), *size


def make_sizes(source: IO[bytes], content_type: str, sizes: Sequence[tuple[int, int]]) -> list[bytes]:
    """Smaller copies of exactly these widths and heights as WebP, of the first frame."""
    with Image.open(source, formats=[_DECODERS[content_type]]) as image:
        image.draft("RGB", max(sizes))  # a JPEG is decoded at about the size that is needed
        whole = _for_webp(_plain(image))
        return [_small(whole, size) for size in sizes]


def _small(whole: Image.Image, size: tuple[int, int]) -> bytes:
    written = io.BytesIO()
    whole.resize(size, Image.Resampling.LANCZOS, reducing_gap=3.0).save(written, "WEBP", **_SMALL)
    return written.getvalue()


def _for_webp(image: Image.Image) -> Image.Image:
    if image.mode.startswith("I"):  # 16 bits of grey
        image = image.point(lambda value: value / 256).convert("L")
    has_alpha = "A" in image.mode or "transparency" in image.info
    return image.convert("RGBA" if has_alpha else "RGB")


def _save_still(image: Image.Image, written: IO[bytes], decoder: str, *, is_lossless: bool) -> tuple[int, int]:
    options = _STILL[decoder]
    if decoder == "JPEG" and image.mode in ("L", "RGB"):
        # The tables it was made with: written with finer ones it would grow, and be no better.
        options = {"qtables": image.quantization}  # type: ignore[attr-defined]
    elif decoder == "WEBP" and is_lossless:
        options = _LOSSLESS_WEBP
    plain = _plain(image)
    plain.save(written, decoder, **options)
    return plain.size


def _is_lossless(source: IO[bytes]) -> bool:
    """Of a WebP file, which Pillow has read, but does not tell."""
    at = source.tell()
    source.seek(0)
    found = b"VP8L" in source.read(64 * 1024)
    source.seek(at)
    return found


def _plain(image: Image.Image) -> Image.Image:
    """The picture upright, in the colours that every screen knows, with nothing beside its pixels."""
    ImageOps.exif_transpose(image, in_place=True)
    profile = image.info.get("icc_profile")
    image.info = {name: value for name, value in image.info.items() if name == "transparency"}
    if image.mode in ("RGB", "CMYK") and profile:
        return _in_srgb(image, profile)
    return image.convert("RGB") if image.mode == "CMYK" else image


def _in_srgb(image: Image.Image, profile: bytes) -> Image.Image:
    """Without its profile a picture's numbers mean sRGB, so they are made to. A profile that is none is let go."""
    try:
        source, target = ImageCms.ImageCmsProfile(io.BytesIO(profile)), ImageCms.createProfile("sRGB")
        converted = ImageCms.profileToProfile(image, source, target, outputMode="RGB")
    except (ImageCms.PyCMSError, OSError, ValueError):
        converted = None
    plain = converted or image.convert("RGB")
    plain.info.pop("icc_profile", None)
    return plain


def _save_animation(image: Image.Image, written: IO[bytes], decoder: str) -> tuple[int, int]:
    frames, durations = [], []
    for number, frame in enumerate(ImageSequence.Iterator(image)):
        if number >= MOST_FRAMES:
            raise ValueError("more frames than its header tells")
        frames.append(_whole_frame(frame))
        durations.append(int(frame.info.get("duration") or 0))  # known once the frame is decoded
    options = _MOVING[decoder] | {"save_all": True, "append_images": frames[1:], "duration": durations}
    if "loop" in image.info:
        options["loop"] = int(image.info["loop"])
    frames[0].save(written, decoder, **options)
    return frames[0].size


def _whole_frame(frame: Image.Image) -> Image.Image:
    """As it is shown; how it differs from the one before is the writer's own matter."""
    whole = frame.convert("RGBA")
    whole.info = {}
    return whole
