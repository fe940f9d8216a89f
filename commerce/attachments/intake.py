"""What becomes of a file between its arrival and its folder: checked, an image written again, and made smaller.

Nothing here touches the database or the storage. Files wait in the machine's temporary folder, not in memory.
"""

import contextlib
import mmap
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO

from django.conf import settings

from commerce.attachments import antivirus
from commerce.attachments.file_names import safe_name
from commerce.attachments.file_types import (
    ALLOWED,
    EXTENSIONS,
    IMAGES,
    BadDocument,
    check_document,
    looks_like,
    type_of,
)
from commerce.attachments.image_headers import BadImage, read_header
from commerce.attachments.models import Attachment
from commerce.attachments.picture_process import picture_process
from commerce.attachments.sizes import Size, sizes_of
from shared.api.errors import ValidationFailed

FIELD = "attachment[]"
# Of an image up to here the smaller sizes are made while its sender waits; of a larger one, by a worker.
AT_ONCE_PIXELS = 2_000_000
_LONGEST_SHOWN_NAME = 100


@dataclass(frozen=True, kw_only=True)
class Offered:
    """A file as it came: on this machine's disk, with a file descriptor, under whatever name its sender gave."""

    file: IO[bytes]
    name: str


@dataclass(kw_only=True)
class Prepared:
    """A file as it is to be stored. `sizes` is None where a worker is to make them."""

    file: IO[bytes]
    name: str
    content_type: Attachment.Type
    length: int
    width: int | None = None
    height: int | None = None
    sizes: list[tuple[Size, IO[bytes]]] | None = field(default_factory=list)


def check(offered: Sequence[Offered]) -> list[Attachment.Type]:
    """The types of these files, by their structure alone. Raises ValidationFailed that names each file that is not
    taken, and antivirus.ScannerUnavailable."""
    if not 1 <= len(offered) <= settings.MOST_FILES:
        raise ValidationFailed({FIELD: [f"Send from 1 to {settings.MOST_FILES} files in this field."]})
    types, refused = [], []
    for one in offered:
        try:
            types.append(_check(one.file))
        except (BadImage, BadDocument) as error:
            refused.append(_message(one.name, error))
    if refused:
        raise ValidationFailed({FIELD: refused})
    return types


def _check(file: IO[bytes]) -> Attachment.Type:
    length = file.seek(0, 2)
    if not length:
        raise BadDocument("is empty.")
    if length > settings.LARGEST_FILE_BYTES:
        raise BadDocument(_too_large())
    with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        content_type = type_of(content)
        if content_type is None:
            guess = looks_like(content)
            hint = f" It looks like {guess}." if guess else ""
            raise BadDocument(f"is none of the types that are taken: {ALLOWED}.{hint}")
        _scan(file)
        if content_type in IMAGES:
            read_header(content, content_type)
        else:
            check_document(file, content, content_type)
    return content_type


def _scan(file: IO[bytes]) -> None:
    if settings.CLAMD:
        try:
            antivirus.scan(file, settings.CLAMD)
        except antivirus.Infected as found:
            raise BadDocument(f"is infected: {found}.") from None


def too_large(name: str) -> ValidationFailed:
    """For one whose size is known before it is here."""
    return ValidationFailed({FIELD: [_message(name, _too_large())]})


def _too_large() -> str:
    return f"is larger than {settings.LARGEST_FILE_BYTES // 1024**2} MiB."


def _message(name: str, error: object) -> str:
    shown = "".join(character for character in name if character.isprintable())[:_LONGEST_SHOWN_NAME]
    return f"{shown or 'A file without a name'} {error}"


@contextlib.contextmanager
def prepared(
    offered: Sequence[Offered], types: Sequence[Attachment.Type], *, has_worker: bool
) -> Iterator[list[Prepared]]:
    """The files as they are to be stored, for the time of a `with` block. Raises ValidationFailed for an image that
    cannot be opened, picture_process.PicturesUnavailable, and OSError where the disk is full."""
    with contextlib.ExitStack() as files:
        ready, refused = [], []
        for one, content_type in zip(offered, types, strict=True):
            try:
                ready.append(_prepare(one, content_type, has_worker, files))
            except BadImage as error:
                refused.append(_message(one.name, error))
        if refused:
            raise ValidationFailed({FIELD: refused})
        yield ready


def _prepare(
    offered: Offered, content_type: Attachment.Type, has_worker: bool, files: contextlib.ExitStack
) -> Prepared:
    name = safe_name(offered.name, EXTENSIONS[content_type])
    if content_type not in IMAGES:
        length = offered.file.seek(0, 2)
        return Prepared(file=offered.file, name=name, content_type=content_type, length=length)
    file = files.enter_context(temporary_file())
    width, height = picture_process.rewrite(offered.file, file, content_type)
    later = has_worker and width * height > AT_ONCE_PIXELS
    return Prepared(
        file=file,
        name=name,
        content_type=content_type,
        length=file.seek(0, 2),
        width=width,
        height=height,
        sizes=None if later else make_sizes(file, content_type, width, height, files),
    )


def make_sizes(
    file: IO[bytes], content_type: str, width: int, height: int, files: contextlib.ExitStack
) -> list[tuple[Size, IO[bytes]]]:
    """The smaller copies of an image, in files that `files` closes. Raises as `prepared` does, and BadImage."""
    sizes = sizes_of(width, height)
    targets = [files.enter_context(temporary_file()) for _ in sizes]
    picture_process.make_sizes(file, targets, content_type, [(size.width, size.height) for size in sizes])
    return list(zip(sizes, targets, strict=True))


def temporary_file() -> IO[bytes]:
    """Without a name: whatever happens to us, the system takes it back."""
    return tempfile.TemporaryFile()
