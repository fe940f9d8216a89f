"""Views of /v1/uploads."""

from datetime import timedelta

from asgiref.sync import sync_to_async
from django.utils import timezone
from msgspec.structs import asdict

from inference.access.operations import OperationCall, operation
from inference.files.models import StoredFile, Upload
from inference.files.uploads import schema, services
from inference.files.views import full_disk_is_503, parse_multipart, serialize_file
from inference.protocol.openai.uploads import (
    PART_FORM,
    UploadCompleteRequest,
    UploadCreateRequest,
    UploadObject,
    UploadPart,
    UploadWithParts,
)
from shared.accounts.roles import Permission

PART_FIELD = "data"


@operation(
    "POST",
    docs=schema.CREATE_UPLOAD,
    permission=Permission.RUN_INFERENCE,
    body=UploadCreateRequest,
    response=UploadObject,
    idempotent=True,
)
async def create_upload(call: OperationCall[UploadCreateRequest]) -> UploadObject:
    body = call.body
    upload = await sync_to_async(services.create_upload)(
        owner=call.caller.user,
        name=body.filename,
        size=body.bytes,
        retention=timedelta(seconds=body.expires_after.seconds) if body.expires_after else None,
        now=timezone.now(),
    )
    return serialize_upload(upload)


@operation("GET", docs=schema.READ_UPLOAD, permission=Permission.RUN_INFERENCE, response=UploadWithParts)
async def read_upload(call: OperationCall[None], upload_id: str) -> UploadWithParts:
    find, now = sync_to_async(services.find_upload), timezone.now()
    upload, file, parts = await find(owner=call.caller.user, upload_id=upload_id, now=now)
    fields = asdict(serialize_upload(upload, file)) | {"status": services.upload_status(upload, now)}
    return UploadWithParts(**fields, parts=[serialize_part(part, upload_id) for part in parts])


@operation(
    "POST",
    docs=schema.ADD_PART,
    permission=Permission.RUN_INFERENCE,
    form_schema=PART_FORM,
    response=UploadPart,
    idempotent=True,
)
async def add_part(call: OperationCall[None], upload_id: str) -> UploadPart:
    part = await sync_to_async(_add_part)(call, upload_id)
    return serialize_part(part, upload_id)


def _add_part(call: OperationCall[None], upload_id: str) -> StoredFile:
    with full_disk_is_503():
        _, content = parse_multipart(call.request, PART_FIELD)
        return services.add_part(owner=call.caller.user, upload_id=upload_id, content=content, now=timezone.now())


@operation(
    "POST",
    docs=schema.COMPLETE_UPLOAD,
    permission=Permission.RUN_INFERENCE,
    body=UploadCompleteRequest,
    response=UploadObject,
    idempotent=True,
)
async def complete_upload(call: OperationCall[UploadCompleteRequest], upload_id: str) -> UploadObject:
    return serialize_upload(*await sync_to_async(_complete)(call, upload_id))


def _complete(call: OperationCall[UploadCompleteRequest], upload_id: str) -> tuple[Upload, StoredFile]:
    with full_disk_is_503():
        return services.complete_upload(
            owner=call.caller.user,
            upload_id=upload_id,
            part_ids=call.body.part_ids,
            md5=call.body.md5,
            now=timezone.now(),
        )


@operation(
    "POST", docs=schema.CANCEL_UPLOAD, permission=Permission.RUN_INFERENCE, response=UploadObject, idempotent=True
)
async def cancel_upload(call: OperationCall[None], upload_id: str) -> UploadObject:
    cancel = sync_to_async(services.cancel_upload)
    return serialize_upload(await cancel(owner=call.caller.user, upload_id=upload_id, now=timezone.now()))


def serialize_upload(upload: Upload, file: StoredFile | None = None) -> UploadObject:
    """Return the wire form of an upload, and of the file that has come of it."""
    ended = {Upload.Status.COMPLETED: "completed", Upload.Status.CANCELLED: "cancelled"}
    return UploadObject(
        id=upload.upload_id,
        object="upload",
        bytes=upload.size,
        created_at=int(upload.created_at.timestamp()),
        expires_at=int(upload.expires_at.timestamp()),
        filename=upload.name,
        purpose="batch",
        status=ended.get(Upload.Status(upload.status), "pending"),  # type: ignore[arg-type]  # a Literal
        file=serialize_file(file) if file else None,
    )


def serialize_part(part: StoredFile, upload_id: str) -> UploadPart:
    """Return the wire form of a part."""
    return UploadPart(part.file_id, "upload.part", int(part.created_at.timestamp()), upload_id, part.size)
