"""Structural checks of PDF, ZIP and EPUB files. Nothing is unpacked."""

import zipfile
from typing import IO, cast

from commerce.attachments.uploads.file_types import FileType

MAX_ENTRIES_COUNT = 10_000
MAX_UNPACKED_BYTES = 1024 * 1024 * 1024
MAX_EXPANSION_RATIO = 1000  # ordinary archives of text reach a few tens
MAX_DIRECTORY_BYTES = 2 * 1024 * 1024
_PDF_TRAILER_BYTES = 1024
_DIRECTORY_ENTRY = b"PK\x01\x02"  # signature of each entry in an archive's directory (APPNOTE 4.3.12)


class InvalidDocument(Exception):
    """A document that is not accepted. The message continues a sentence that begins with the file's name."""


def check_document(file: IO[bytes], length: int, file_type: str) -> None:
    """Raise InvalidDocument for a PDF, ZIP or EPUB that is truncated, damaged or harmful to unpack."""
    if file_type == FileType.PDF:
        file.seek(max(0, length - _PDF_TRAILER_BYTES))
        if b"%%EOF" not in file.read():
            raise InvalidDocument("is truncated: it has no end marker.")
        return
    names = _check_archive(file, length)
    if file_type == FileType.EPUB and "META-INF/container.xml" not in names:
        raise InvalidDocument("is not a valid EPUB: it has no META-INF/container.xml.")


def _check_archive(file: IO[bytes], length: int) -> set[str]:
    """Return the names in the archive's directory. Raise InvalidDocument."""
    try:
        with zipfile.ZipFile(cast(IO[bytes], _BoundedReader(file))) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError, OSError, OverflowError):
        raise InvalidDocument("is truncated or damaged.") from None
    if sum(entry.file_size for entry in entries) > min(MAX_UNPACKED_BYTES, MAX_EXPANSION_RATIO * length):
        raise InvalidDocument("would unpack to far more than its own size.")
    if any(_escapes_folder(entry) for entry in entries):
        raise InvalidDocument("has an entry that would be unpacked outside its folder.")
    return {entry.filename for entry in entries}


class _BoundedReader:
    """A file whose reads are limited to the size and the entries that an archive's directory may have.

    Several records at the end of an archive describe its directory. The limits therefore apply to what is read.
    """

    def __init__(self, file: IO[bytes]) -> None:
        self.seek, self.tell, self._read = file.seek, file.tell, file.read

    def read(self, size: int = -1) -> bytes:
        if size > MAX_DIRECTORY_BYTES:
            raise InvalidDocument(f"has a directory of more than {MAX_DIRECTORY_BYTES // 1024**2} MiB.")
        data = self._read(size)
        if data.count(_DIRECTORY_ENTRY) > MAX_ENTRIES_COUNT:
            raise InvalidDocument(f"has more than {MAX_ENTRIES_COUNT} entries.")
        return data


def _escapes_folder(entry: zipfile.ZipInfo) -> bool:
    name = entry.filename.replace("\\", "/")
    is_link = (entry.external_attr >> 28) == 0o12
    return is_link or name.startswith("/") or name[1:2] == ":" or ".." in name.split("/")
