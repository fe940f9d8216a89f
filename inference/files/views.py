"""Routes of files. What is uploaded waits on the disk before it is stored, and what is read is streamed."""

from datetime import timedelta
from typing import Any, cast
from urllib.parse import quote

from asgiref.sync import sync_to_async
from django.core.files.storage import default_storage
from django.db import connection
from django.http import HttpResponse, StreamingHttpResponse
from django.utils import timezone

from inference.access.operations import Call, operation
from inference.files import services
from inference.files.forms import no_room, read_form
from inference.files.models import StoredFile
from inference.protocol import openai_files
from shared.accounts.roles import Permission
from shared.serving.file_chunks import FileChunks

CONTENT_TYPE = "application/octet-stream"


@operation(
    "POST",
    summary="Upload a file for a batch (OpenAI)",
    permission=Permission.RUN_INFERENCE,
    form=openai_files.UPLOAD_FORM,
    answer=openai_files.FileObject,
    keyed=True,
)
async def upload_file(call: Call[None]) -> openai_files.FileObject:
    """JSON lines, a request each; they are checked when a batch is made of them."""
    return _wire(await sync_to_async(_upload)(call))


def _upload(call: Call[None]) -> StoredFile:
    try:
        fields, content = read_form(call.request)
        form = openai_files.parse_file_form(fields)
        return services.upload_file(
            owner=call.caller.user,
            content=content,
            kept_for=timedelta(seconds=form.seconds) if form.seconds else None,
            now=timezone.now(),
        )
    except OSError as error:
        if refused := no_room(error):
            raise refused from None
        raise


@operation(
    "GET",
    summary="List your files (OpenAI)",
    permission=Permission.RUN_INFERENCE,
    query=openai_files.FilesQuery,
    answer=openai_files.FilePage,
)
async def list_files(call: Call[None]) -> openai_files.FilePage:
    """Your own, newest first; those that batches have written too."""
    asked: openai_files.FilesQuery = call.query
    files, has_more = await sync_to_async(services.list_files)(
        owner=call.caller.user,
        after=asked.after,
        limit=asked.limit,
        newest_first=asked.order == "desc",
        purpose=asked.purpose,
    )
    data = [_wire(file) for file in files]
    first, last = (data[0].id, data[-1].id) if data else (None, None)
    return openai_files.FilePage("list", data, first, last, has_more)


@operation("GET", summary="One file (OpenAI)", permission=Permission.RUN_INFERENCE, answer=openai_files.FileObject)
async def read_file(call: Call[None], file_id: str) -> openai_files.FileObject:
    """What it is; its content has an address of its own."""
    return _wire(await sync_to_async(services.find_file)(owner=call.caller.user, file_id=file_id))


@operation(
    "DELETE", summary="Delete a file (OpenAI)", permission=Permission.RUN_INFERENCE, answer=openai_files.FileDeleted
)
async def delete_file(call: Call[None], file_id: str) -> openai_files.FileDeleted:
    """It and its content go at once. Batches that were made of it go on."""
    await sync_to_async(services.delete_file)(owner=call.caller.user, file_id=file_id, now=timezone.now())
    return openai_files.FileDeleted(file_id, "file", True)


@operation("GET", summary="A file's content (OpenAI)", permission=Permission.RUN_INFERENCE, content=CONTENT_TYPE)
async def read_content(call: Call[None], file_id: str) -> HttpResponse | StreamingHttpResponse:
    """As it was stored."""
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
    return StreamingHttpResponse(FileChunks(content), headers=headers)


def _open(call: Call[None], file_id: str) -> tuple[StoredFile, Any]:
    file = services.find_file(owner=call.caller.user, file_id=file_id)
    try:
        return file, default_storage.open(file.path)
    except FileNotFoundError:  # deleted in between
        raise services.no_such_file(file_id) from None
    finally:
        if not connection.in_atomic_block:
            connection.close()  # to the pool, for others: who reads may take hours


def _wire(file: StoredFile) -> openai_files.FileObject:
    return openai_files.FileObject(
        id=file.file_id,
        object="file",
        bytes=file.size,
        created_at=int(file.created_at.timestamp()),
        expires_at=int(file.expires_at.timestamp()),
        filename=file.name,
        purpose=cast(openai_files.Purpose, file.purpose),
        status="processed",
    )
