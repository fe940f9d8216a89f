"""Views of /v1/files: upload, list, read and delete files. Uploads are spooled to disk, and downloads are streamed."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, cast
from urllib.parse import quote

import structlog
from asgiref.sync import sync_to_async
from django.core.exceptions import RequestDataTooBig, TooManyFilesSent
from django.core.files.storage import default_storage
from django.core.files.uploadedfile import UploadedFile
from django.db import connection
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.http.multipartparser import MultiPartParserError
from django.utils import timezone

from inference.access.operations import OperationCall, operation
from inference.access.responses import ObjectNotFound, json_response
from inference.engine import InvalidRequest
from inference.files import schema, services
from inference.files.models import StoredFile
from inference.protocol.openai.files import (
    UPLOAD_FORM,
    FileDeleted,
    FileList,
    FileObject,
    FilePurpose,
    FilesQuery,
    parse_upload_form,
)
from shared.accounts.roles import Permission
from shared.api.errors import ApiError
from shared.api.idempotency.store import store_keyed_response
from shared.serving.files.file_chunks import AsyncFileChunks

CONTENT_TYPE = "application/octet-stream"
FILE_FIELD = "file"

logger = structlog.get_logger(__name__)


@operation(
    "POST",
    docs=schema.UPLOAD_FILE,
    permission=Permission.RUN_INFERENCE,
    form_schema=UPLOAD_FORM,
    response=FileObject,
    idempotent=True,
)
async def upload_file(call: OperationCall[None]) -> FileObject:
    return serialize_file(await sync_to_async(_upload)(call))


def _upload(call: OperationCall[None]) -> StoredFile:
    """Store the file. In its transaction, store the response for the request's Idempotency-Key."""

    def store_response(file: StoredFile) -> None:
        store_keyed_response(call.request, json_response(serialize_file(file)))

    with full_disk_is_503():
        fields, content = parse_multipart(call.request, FILE_FIELD)
        form = parse_upload_form(fields)
        return services.upload_file(
            owner=call.caller.user,
            content=content,
            retention=timedelta(seconds=form.seconds) if form.seconds else None,
            now=timezone.now(),
            on_stored=store_response,
        )


@contextmanager
def full_disk_is_503() -> Iterator[None]:
    """Raise ApiError 503 for a write that finds no disk space."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            logger.error("disk_full")
            message = "The server has no disk space for files at the moment. Try again later."
            raise ApiError(503, message, headers={"Retry-After": "60"}) from None
        raise


def parse_multipart(request: HttpRequest, field: str) -> "tuple[dict[str, str], UploadedFile[Any]]":
    """Return the form's fields, and its file from this field.

    Raises ApiError 415, 413, or 400 for a malformed form; InvalidRequest unless it has exactly one file with content.
    """
    if request.content_type != "multipart/form-data":
        raise ApiError(415, "`Content-Type` must be multipart/form-data.")
    if (request.content_params or {}).get("charset", "utf-8").lower() not in ("utf-8", "utf8"):
        raise ApiError(415, "The form must be encoded in UTF-8. Leave charset out of Content-Type.")
    try:
        fields, files = request.POST.dict(), request.FILES.getlist(field)
    except MultiPartParserError as error:
        raise ApiError(400, f"The form cannot be parsed: {error}.") from None
    except RequestDataTooBig:
        message = "The form's fields are too long. Send the file as a part with a file name."
        raise ApiError(413, message) from None
    except TooManyFilesSent:
        files = []
    if len(files) != 1:
        raise InvalidRequest(f"`{field}` must be exactly one part with a file name.", field=field)
    if not files[0].size:
        raise InvalidRequest(f"`{field}` must not be empty.", field=field)
    return {name: str(value) for name, value in fields.items()}, files[0]


@operation(
    "GET",
    docs=schema.LIST_FILES,
    permission=Permission.RUN_INFERENCE,
    query=FilesQuery,
    response=FileList,
)
async def list_files(call: OperationCall[None]) -> FileList:
    query: FilesQuery = call.query
    files, has_more = await sync_to_async(services.list_files)(
        owner=call.caller.user,
        after=query.after,
        limit=query.limit,
        newest_first=query.order == "desc",
        purpose=query.purpose,
    )
    data = [serialize_file(file) for file in files]
    first, last = (data[0].id, data[-1].id) if data else (None, None)
    return FileList("list", data, first, last, has_more)


@operation("GET", docs=schema.READ_FILE, permission=Permission.RUN_INFERENCE, response=FileObject)
async def read_file(call: OperationCall[None], file_id: str) -> FileObject:
    return serialize_file(await sync_to_async(services.find_file)(owner=call.caller.user, file_id=file_id))


@operation("DELETE", docs=schema.DELETE_FILE, permission=Permission.RUN_INFERENCE, response=FileDeleted)
async def delete_file(call: OperationCall[None], file_id: str) -> FileDeleted:
    await sync_to_async(services.delete_file)(owner=call.caller.user, file_id=file_id, now=timezone.now())
    return FileDeleted(file_id, "file", True)


@operation("GET", docs=schema.FILE_CONTENT, permission=Permission.RUN_INFERENCE, content_type=CONTENT_TYPE)
async def read_content(call: OperationCall[None], file_id: str) -> HttpResponse | StreamingHttpResponse:
    file, content = await sync_to_async(_open)(call, file_id)
    headers = {
        "Content-Type": CONTENT_TYPE,
        "Content-Length": str(file.size),
        "Content-Disposition": f"attachment; filename*=UTF-8''{quote(file.name)}",
        "Cache-Control": "private",
    }
    if call.request.method == "HEAD":
        content.close()
        return HttpResponse(headers=headers)
    return StreamingHttpResponse(AsyncFileChunks(content), headers=headers)


def _open(call: OperationCall[None], file_id: str) -> tuple[StoredFile, Any]:
    file = services.find_file(owner=call.caller.user, file_id=file_id)
    try:
        return file, default_storage.open(file.path)
    except FileNotFoundError:  # deleted meanwhile
        raise ObjectNotFound("file", file_id, field="id") from None
    finally:
        if not connection.in_atomic_block:
            connection.close()  # a download may take hours: other requests need the pooled connection


def serialize_file(file: StoredFile) -> FileObject:
    """Return the wire form of a file."""
    return FileObject(
        id=file.file_id,
        object="file",
        bytes=file.size,
        created_at=int(file.created_at.timestamp()),
        expires_at=int(file.expires_at.timestamp()),
        filename=file.name,
        purpose=cast(FilePurpose, file.purpose),
        status="processed",
    )
