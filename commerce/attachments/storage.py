"""Where the files of attachments lie, on a disk or in S3, and under which addresses they are read.

Each attachment has a folder of its own, `attachments/KEY`, with the file under its safe name and, of an image, the
smaller copies under `sizes`. A file in it never changes.
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

from commerce.attachments.file_types import EXTENSIONS, IMAGES
from commerce.attachments.models import Attachment
from commerce.attachments.sizes import Size

FOLDER = "attachments"
INCOMING = "incoming"  # sent straight to S3, and not yet looked at
CACHE_CONTROL = "public, max-age=86400"


def folder_of(key: str) -> str:
    return f"{FOLDER}/{key}"


def original_path(attachment: Attachment) -> str:
    return f"{folder_of(attachment.key)}/{attachment.name}"


def size_path(attachment: Attachment, size: Size) -> str:
    return f"{folder_of(attachment.key)}/sizes/{size.file_name}"


def original_url(attachment: Attachment, request: Request | HttpRequest | None) -> str:
    return _absolute(f"{settings.MEDIA_URL}{quote(original_path(attachment))}", request)


def size_url(attachment: Attachment, size: Size, request: Request | HttpRequest | None) -> str:
    """Until a worker has made it, the address is always one of ours, which knows what to show instead."""
    path = size_path(attachment, size)
    if attachment.sizes_made_at:
        return _absolute(f"{settings.MEDIA_URL}{path}", request)
    return _absolute(reverse("media", args=[path.removeprefix(f"{FOLDER}/")]), request)


def _absolute(url: str, request: Request | HttpRequest | None) -> str:
    return request.build_absolute_uri(url) if request else url


def save(path: str, file: IO[bytes]) -> None:
    file.seek(0)
    default_storage.save(path, File(file))


def copy_to(path: str, target: IO[bytes]) -> None:
    """Raises FileNotFoundError."""
    with default_storage.open(path) as file:
        shutil.copyfileobj(file, target)
    target.flush()


def delete_folder(folder: str) -> None:
    """All that is in it; a folder that is not there is no error."""
    try:
        folders, files = default_storage.listdir(folder)
    except FileNotFoundError:
        return
    for name in files:
        default_storage.delete(f"{folder}/{name}")
    for name in folders:
        delete_folder(f"{folder}/{name}")
    default_storage.delete(folder)


def is_there(attachment: Attachment) -> bool:
    return default_storage.exists(original_path(attachment))


def all_folders() -> Iterator[str]:
    """Of attachments that are, and of what is left of others."""
    for parent in (FOLDER, INCOMING):
        try:
            names = default_storage.listdir(parent)[0]
        except FileNotFoundError:
            continue
        yield from (f"{parent}/{name}" for name in names)


def headers_of(name: str) -> dict[str, str]:
    """How a file is to be given out, by its extension: only images are shown, anything else is downloaded."""
    content_type = _TYPES.get(name.rpartition(".")[2])
    if content_type is None:
        raise FileNotFoundError(name)
    how = "inline" if content_type in IMAGES else "attachment"
    return {
        "Content-Type": content_type.value,
        "Content-Disposition": f"{how}; filename*=UTF-8''{quote(name)}",
        "Cache-Control": CACHE_CONTROL,
    }


_TYPES = {extension: content_type for content_type, extension in EXTENSIONS.items()}
