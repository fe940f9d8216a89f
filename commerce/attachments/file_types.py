"""What a file is, told by its content alone; and, of those that are stored as they are, whether they are whole."""

import zipfile
from typing import IO, cast

import puremagic

from commerce.attachments.image_headers import Content
from commerce.attachments.models import Attachment

EXTENSIONS = {
    Attachment.Type.JPEG: "jpg",
    Attachment.Type.PNG: "png",
    Attachment.Type.WEBP: "webp",
    Attachment.Type.GIF: "gif",
    Attachment.Type.AVIF: "avif",
    Attachment.Type.PDF: "pdf",
    Attachment.Type.ZIP: "zip",
    Attachment.Type.EPUB: "epub",
}
IMAGES = frozenset(
    {Attachment.Type.JPEG, Attachment.Type.PNG, Attachment.Type.WEBP, Attachment.Type.GIF, Attachment.Type.AVIF}
)
ALLOWED = "JPEG, PNG, WebP, GIF, AVIF, PDF, ZIP or EPUB"

MOST_ENTRIES = 10_000
MOST_UNPACKED_BYTES = 1024 * 1024 * 1024
MOST_EXPANSION = 1000  # times; honest archives of text come to some tens
LARGEST_DIRECTORY = 2 * 1024 * 1024
_GUESSED_FROM = 4096
_PDF_END_WITHIN = 1024
_ENTRY = b"PK\x01\x02"  # each entry of an archive's directory begins so (APPNOTE 4.3.12)


class BadDocument(Exception):
    """Not taken; the message completes "FILE ..."."""


def type_of(content: Content) -> Attachment.Type | None:
    """The type that the first bytes tell; None for one that is not taken."""
    head = bytes(content[:64])
    for mark, content_type in _MARKS.items():
        if head.startswith(mark):
            return content_type
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return Attachment.Type.WEBP
    if head[4:8] == b"ftyp" and _brands(head) & {b"avif", b"avis"}:
        return Attachment.Type.AVIF
    if head.startswith(b"PK\x03\x04"):
        return Attachment.Type.EPUB if _is_epub(head) else Attachment.Type.ZIP
    return None


def looks_like(content: Content) -> str:
    """A second opinion, to tell a person what they have sent; "" for none. Nothing is taken on its word."""
    try:
        return puremagic.from_string(bytes(content[:_GUESSED_FROM]), mime=True)
    except (puremagic.PureError, ValueError):
        return ""


_MARKS = {
    b"\xff\xd8\xff": Attachment.Type.JPEG,
    b"\x89PNG\r\n\x1a\n": Attachment.Type.PNG,
    b"GIF87a": Attachment.Type.GIF,
    b"GIF89a": Attachment.Type.GIF,
    b"%PDF-1.": Attachment.Type.PDF,
    b"%PDF-2.": Attachment.Type.PDF,
}


def _brands(head: bytes) -> set[bytes]:
    box = head[8 : int.from_bytes(head[:4], "big")]
    return {box[at : at + 4] for at in range(0, len(box), 4) if at != 4}


def _is_epub(head: bytes) -> bool:
    """By EPUB's rule (OCF 3.3, section 4.3): the first entry is `mimetype`, not compressed and without extra field."""
    return head[8:10] == b"\0\0" and head[26:58] == b"\x08\0\0\0mimetypeapplication/epub+zip"


def check_document(file: IO[bytes], content: Content, content_type: str) -> None:
    """Raises BadDocument for a PDF, ZIP or EPUB that is cut short, damaged or made to do harm when unpacked."""
    if content_type == Attachment.Type.PDF:
        if content[-_PDF_END_WITHIN:].rfind(b"%%EOF") < 0:
            raise BadDocument("is cut short: it has no end mark.")
        return
    names = _check_archive(file, content)
    if content_type == Attachment.Type.EPUB and "META-INF/container.xml" not in names:
        raise BadDocument("is no EPUB: it has no META-INF/container.xml.")


def _check_archive(file: IO[bytes], content: Content) -> set[str]:
    """The names in the archive's directory; nothing is unpacked."""
    try:
        with zipfile.ZipFile(cast(IO[bytes], _BoundedReads(file))) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError, OverflowError):
        raise BadDocument("is cut short or damaged.") from None
    if sum(entry.file_size for entry in entries) > min(MOST_UNPACKED_BYTES, MOST_EXPANSION * len(content)):
        raise BadDocument("would unpack to far more than it is.")
    if any(_leaves_its_folder(entry) for entry in entries):
        raise BadDocument("has an entry that would be unpacked outside its folder.")
    return {entry.filename for entry in entries}


class _BoundedReads:
    """A file of which no read is larger than a directory may be, nor has more entries: the end of an archive tells of
    its directory in several records, and what counts is what is read."""

    def __init__(self, file: IO[bytes]) -> None:
        self.seek, self.tell, self._read = file.seek, file.tell, file.read

    def read(self, size: int = -1) -> bytes:
        if size > LARGEST_DIRECTORY:
            raise BadDocument(f"has a directory of more than {LARGEST_DIRECTORY // 1024**2} MiB.")
        data = self._read(size)
        if data.count(_ENTRY) > MOST_ENTRIES:
            raise BadDocument(f"has more than {MOST_ENTRIES} entries.")
        return data


def _leaves_its_folder(entry: zipfile.ZipInfo) -> bool:
    name = entry.filename.replace("\\", "/")
    is_link = (entry.external_attr >> 28) == 0o12
    return is_link or name.startswith("/") or name[1:2] == ":" or ".." in name.split("/")
