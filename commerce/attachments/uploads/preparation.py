"""Checks and preparation of uploaded files: type, size, virus scan, re-encoding and smaller copies of images.

Files wait in the system's temporary folder, not in memory.
"""

import contextlib
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import IO, cast

import structlog
from django.conf import settings
from django.core.files import File

from commerce.attachments.images.limits import InvalidImage
from commerce.attachments.images.sizes import ImageSize, all_sizes
from commerce.attachments.images.worker_client import image_worker
from commerce.attachments.uploads import antivirus
from commerce.attachments.uploads.documents import InvalidDocument, check_document
from commerce.attachments.uploads.file_names import safe_name
from commerce.attachments.uploads.file_types import (
    EXTENSIONS,
    IMAGE_TYPES,
    SNIFFED_BYTES,
    SUPPORTED_TYPES,
    FileType,
    detect_type,
    guess_type,
)
from shared.api.errors import ValidationFailed

FIELD = "attachment[]"
# Smaller copies of larger images are made by a worker, after the upload is answered.
MAX_INLINE_PIXELS = 2_000_000
_MAX_SHOWN_NAME_LENGTH = 100

logger = structlog.get_logger(__name__)


@dataclass(kw_only=True)
class PreparedFile:
    """A file ready to be stored. `sizes` is None where a worker makes the smaller copies later."""

    file: IO[bytes]
    name: str
    content_type: FileType
    length: int
    width: int | None = None
    height: int | None = None
    sizes: list[tuple[ImageSize, IO[bytes]]] | None = field(default_factory=list)


@contextlib.contextmanager
def prepare_files(incoming_files: "Sequence[File[bytes]]", *, user: str) -> Iterator[list[PreparedFile]]:
    """Yield the files ready to be stored. Their temporary files are closed after the `with` block.

    `incoming_files` are on disk, with a file descriptor, under the client's names.

    `user` is whose turn it takes among waiting images. Raises ValidationFailed naming each invalid file,
    antivirus.ScannerUnavailable, worker_client.ImageWorkerUnavailable, and OSError where the disk is full.
    """
    if not 1 <= len(incoming_files) <= settings.MAX_UPLOAD_FILES:
        raise ValidationFailed({FIELD: [f"Send from 1 to {settings.MAX_UPLOAD_FILES} files in this field."]})
    with contextlib.ExitStack() as open_files:
        prepared_files, errors = [], []
        for incoming in incoming_files:
            try:
                file = cast(IO[bytes], incoming.file)
                prepared_files.append(_prepare_file(file, incoming.name or "", open_files, user))
            except (InvalidImage, InvalidDocument) as error:
                errors.append(_message(incoming.name or "", error))
        if errors:
            raise ValidationFailed({FIELD: errors})
        yield prepared_files


def _check_file(file: IO[bytes]) -> FileType:
    """Return the type of the file, judged by its content. Raise InvalidDocument."""
    length = file.seek(0, 2)
    if not length:
        raise InvalidDocument("is empty.")
    if length > settings.MAX_FILE_BYTES:
        raise InvalidDocument(_too_large())
    file.seek(0)
    head = file.read(SNIFFED_BYTES)
    file_type = detect_type(head)
    if file_type is None:
        guess = guess_type(head)
        hint = f" It looks like {guess}." if guess else ""
        raise InvalidDocument(f"has an unsupported type. Send {SUPPORTED_TYPES}.{hint}")
    _scan(file)
    if file_type not in IMAGE_TYPES:
        check_document(file, length, file_type)
    return file_type


def _scan(file: IO[bytes]) -> None:
    if settings.CLAMD:
        try:
            antivirus.scan(file, settings.CLAMD)
        except antivirus.InfectedFile as error:
            raise InvalidDocument(f"is infected: {error}.") from None


def file_too_large(name: str) -> ValidationFailed:
    """Return the error for a file whose size is known before its content is read."""
    return ValidationFailed({FIELD: [_message(name, _too_large())]})


def _too_large() -> str:
    return f"is larger than {settings.MAX_FILE_BYTES // 1024**2} MiB."


def _message(name: str, error: object) -> str:
    shown = "".join(character for character in name if character.isprintable())[:_MAX_SHOWN_NAME_LENGTH]
    return f"{shown or 'A file without a name'} {error}"


def _prepare_file(sent: IO[bytes], name: str, open_files: contextlib.ExitStack, user: str) -> PreparedFile:
    file_type = _check_file(sent)
    name = safe_name(name, EXTENSIONS[file_type])
    if file_type not in IMAGE_TYPES:
        return PreparedFile(file=sent, name=name, content_type=file_type, length=sent.seek(0, 2))
    file = open_files.enter_context(temporary_file())
    width, height = image_worker.rewrite(sent, file, file_type, user=user)
    is_deferred = settings.CELERY_BROKER_URL and width * height > MAX_INLINE_PIXELS
    return PreparedFile(
        file=file,
        name=name,
        content_type=file_type,
        length=file.seek(0, 2),
        width=width,
        height=height,
        sizes=None if is_deferred else make_sizes(file, file_type, width, height, open_files, user=user),
    )


def make_sizes(
    file: IO[bytes],
    file_type: str,
    width: int,
    height: int,
    open_files: contextlib.ExitStack,
    *,
    user: str = "",
) -> list[tuple[ImageSize, IO[bytes]]]:
    """Return the smaller copies of an image, in temporary files that `open_files` closes.

    Without those in AVIF where Pillow was built without it. Raises as `prepare_files` does, and InvalidImage.
    """
    sizes = all_sizes(width, height)
    targets = [open_files.enter_context(temporary_file()) for _ in sizes]
    image_worker.make_sizes(
        file, targets, file_type, [(size.width, size.height, size.format) for size in sizes], user=user
    )
    copies = [(size, target) for size, target in zip(sizes, targets, strict=True) if target.seek(0, 2)]
    if len(copies) < len(sizes):
        logger.warning("avif_unsupported", reason="Pillow was built without AVIF; images get WebP variants only.")
    return copies


def temporary_file() -> IO[bytes]:
    """Return an unnamed temporary file, which the system removes even after a crash."""
    return tempfile.TemporaryFile()
