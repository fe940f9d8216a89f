"""Detection of a file's type by its content."""

import puremagic
from django.db import models


class FileType(models.TextChoices):
    """MIME types of the files that can be attached."""

    JPEG = "image/jpeg"
    PNG = "image/png"
    WEBP = "image/webp"
    GIF = "image/gif"
    AVIF = "image/avif"
    PDF = "application/pdf"
    ZIP = "application/zip"
    EPUB = "application/epub+zip"


EXTENSIONS = {
    FileType.JPEG: "jpg",
    FileType.PNG: "png",
    FileType.WEBP: "webp",
    FileType.GIF: "gif",
    FileType.AVIF: "avif",
    FileType.PDF: "pdf",
    FileType.ZIP: "zip",
    FileType.EPUB: "epub",
}
IMAGE_TYPES = frozenset({FileType.JPEG, FileType.PNG, FileType.WEBP, FileType.GIF, FileType.AVIF})
SUPPORTED_TYPES = "JPEG, PNG, WebP, GIF, AVIF, PDF, ZIP or EPUB"

SNIFFED_BYTES = 4096  # at the beginning of a file
_SIGNATURES = {
    b"\xff\xd8\xff": FileType.JPEG,
    b"\x89PNG\r\n\x1a\n": FileType.PNG,
    b"GIF87a": FileType.GIF,
    b"GIF89a": FileType.GIF,
    b"%PDF-1.": FileType.PDF,
    b"%PDF-2.": FileType.PDF,
}


def detect_type(head: bytes) -> FileType | None:
    """Return the type that a file's first bytes indicate, or None for an unsupported one."""
    for signature, file_type in _SIGNATURES.items():
        if head.startswith(signature):
            return file_type
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return FileType.WEBP
    if head[4:8] == b"ftyp" and _brands(head) & {b"avif", b"avis"}:
        return FileType.AVIF
    if head.startswith(b"PK\x03\x04"):
        return FileType.EPUB if _is_epub(head) else FileType.ZIP
    return None


def guess_type(head: bytes) -> str:
    """Return a guess at the MIME type for an error message, or "". Nothing is accepted because of it."""
    try:
        return puremagic.from_string(head, mime=True)
    except (puremagic.PureError, ValueError):
        return ""


def _brands(head: bytes) -> set[bytes]:
    box = head[8 : min(64, int.from_bytes(head[:4], "big"))]
    return {box[at : at + 4] for at in range(0, len(box), 4) if at != 4}


def _is_epub(head: bytes) -> bool:
    """Return whether the first entry is `mimetype`, stored without compression or extra field (OCF 3.3, 4.3)."""
    return head[8:10] == b"\0\0" and head[26:58] == b"\x08\0\0\0mimetypeapplication/epub+zip"
