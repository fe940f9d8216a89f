"""Storage paths and URLs of attachments' files, on disk or in S3.

Each attachment has a folder `attachments/KEY`. It contains the file under its safe name and an image's smaller copies
under `sizes`. Stored files never change.
"""

import shutil
from collections.abc import Iterator
from typing import IO
from urllib.parse import quote

from django.conf import settings
from django.core.files import File
from django.core.files.storage import default_storage
from django.http import HttpRequest
from django.urls import reverse
from rest_framework.request import Request

from commerce.attachments.images.sizes import ImageSize
from commerce.attachments.models import Attachment
from commerce.attachments.uploads.file_types import EXTENSIONS, IMAGE_TYPES

ATTACHMENTS_FOLDER = "attachments"
INCOMING_FOLDER = "incoming"  # presigned uploads that are not checked yet
CACHE_CONTROL = "public, max-age=86400"

_TYPES = {extension: content_type for content_type, extension in EXTENSIONS.items()}


def attachment_folder(key: str) -> str:
    return f"{ATTACHMENTS_FOLDER}/{key}"


def original_path(attachment: Attachment) -> str:
    return f"{attachment_folder(attachment.key)}/{attachment.name}"


def size_path(attachment: Attachment, size: ImageSize) -> str:
    return f"{attachment_folder(attachment.key)}/sizes/{size.file_name}"


def original_url(attachment: Attachment, request: Request | HttpRequest | None) -> str:
    """Return the URL of the stored file, absolute where a request is given."""
    return _build_url(f"{settings.MEDIA_URL}{quote(original_path(attachment))}", request)


def size_url(attachment: Attachment, size: ImageSize, request: Request | HttpRequest | None) -> str:
    """Return the URL of a smaller copy, absolute where a request is given.

    Until a worker has made the copy, the URL is one of this server, which redirects to the original.
    """
    path = size_path(attachment, size)
    if attachment.sizes_made_at:
        return _build_url(f"{settings.MEDIA_URL}{path}", request)
    return _build_url(reverse("media", args=[path.removeprefix(f"{ATTACHMENTS_FOLDER}/")]), request)


def _build_url(url: str, request: Request | HttpRequest | None) -> str:
    return request.build_absolute_uri(url) if request else url


def save(path: str, file: IO[bytes]) -> None:
    file.seek(0)
    default_storage.save(path, File(file))


def copy_to(path: str, target: IO[bytes]) -> None:
    """Copy a stored file into `target`. Raise FileNotFoundError."""
    with default_storage.open(path) as file:
        shutil.copyfileobj(file, target)
    target.flush()


def delete_folder(folder: str) -> None:
    """Delete a folder and everything in it. A missing folder is no error."""
    try:
        folders, files = default_storage.listdir(folder)
    except FileNotFoundError:
        return
    for name in files:
        default_storage.delete(f"{folder}/{name}")
    for name in folders:
        delete_folder(f"{folder}/{name}")
    default_storage.delete(folder)


def original_exists(attachment: Attachment) -> bool:
    return default_storage.exists(original_path(attachment))


def iter_folders() -> Iterator[str]:
    """Yield the folders of all attachments and presigned uploads, known or not."""
    for parent in (ATTACHMENTS_FOLDER, INCOMING_FOLDER):
        try:
            names = default_storage.listdir(parent)[0]
        except FileNotFoundError:
            continue
        yield from (f"{parent}/{name}" for name in names)


def response_headers(name: str) -> dict[str, str]:
    """Return the headers of a file's response, by its extension. Only images are shown inline.

    Raises FileNotFoundError for an extension that no attachment has.
    """
    content_type = _TYPES.get(name.rpartition(".")[2])
    if content_type is None:
        raise FileNotFoundError(name)
    disposition = "inline" if content_type in IMAGE_TYPES else "attachment"
    return {
        "Content-Type": content_type.value,
        "Content-Disposition": f"{disposition}; filename*=UTF-8''{quote(name)}",
        "Cache-Control": CACHE_CONTROL,
    }
