"""Wire structs of /v1/uploads."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from inference.protocol.openai.files import FileExpirySeconds, FileObject

UPLOAD_ID_EXAMPLE, PART_ID_EXAMPLE = "upload_5b8d1f0c9a7e4d2b8c3f6a10", "part_0c9a7e4d2b8c3f6a105b8d1f"
UploadId = Annotated[str, Meta(description="Id of the upload.", examples=[UPLOAD_ID_EXAMPLE])]
PartId = Annotated[str, Meta(max_length=100, description="Id of the part.", examples=[PART_ID_EXAMPLE])]


class UploadExpiry(Struct):
    """The time for which the file is kept."""

    anchor: Annotated[Literal["created_at"], Meta(description="Start of the time.")]
    seconds: FileExpirySeconds


class UploadCreateRequest(Struct, kw_only=True):
    """A file that will come in parts."""

    bytes: Annotated[int, Meta(ge=1, le=10**15, description="Size of the file in bytes.", examples=[1_073_741_824])]
    filename: Annotated[
        str, Meta(min_length=1, max_length=255, description="Name of the file.", examples=["requests.jsonl"])
    ]
    mime_type: Annotated[
        str, Meta(max_length=255, description="Media type of the file.", examples=["application/jsonl"])
    ]
    purpose: Annotated[Literal["batch"], Meta(description="Purpose of the file: always `batch`.")]
    expires_after: Annotated[UploadExpiry | None, Meta(description="How long the file is kept.")] = None


class UploadCompleteRequest(Struct, kw_only=True):
    """The parts of the file, in their order."""

    part_ids: Annotated[
        list[PartId], Meta(min_length=1, max_length=1000, description="Ids of all parts, in the order of the file.")
    ]
    md5: Annotated[
        str,
        Meta(
            pattern="^[0-9a-fA-F]{32}$|^$",
            description="MD5 of the whole file in hexadecimal digits, to compare.",
            examples=["d41d8cd98f00b204e9800998ecf8427e"],
        ),
    ] = ""


class UploadObject(Struct):
    """An upload."""

    id: UploadId
    object: Annotated[Literal["upload"], Meta(description="Kind of the object.")]
    bytes: Annotated[int, Meta(description="Size of the file in bytes.", examples=[1_073_741_824])]
    created_at: Annotated[int, Meta(description="Time in Unix seconds.", examples=[1795276179])]
    expires_at: Annotated[
        int,
        Meta(
            description="Time in Unix seconds until which it can be completed. Each part postpones it.",
            examples=[1795279779],
        ),
    ]
    filename: Annotated[str, Meta(description="Name of the file.", examples=["requests.jsonl"])]
    purpose: Annotated[Literal["batch"], Meta(description="Purpose of the file.")]
    status: Annotated[
        Literal["pending", "completed", "cancelled", "expired"],
        Meta(description="Whether the parts have become the file."),
    ]
    file: Annotated[FileObject | None, Meta(description="The file, once the upload is completed.")]


class UploadPart(Struct):
    """A part of an upload."""

    id: PartId
    object: Annotated[Literal["upload.part"], Meta(description="Kind of the object.")]
    created_at: Annotated[int, Meta(description="Time in Unix seconds.", examples=[1795276179])]
    upload_id: UploadId
    bytes: Annotated[int, Meta(description="Size of the part in bytes.", examples=[67_108_864])]


class UploadWithParts(UploadObject):
    """An upload, and the parts of it that have arrived."""

    parts: Annotated[
        list[UploadPart],
        Meta(description="The parts that are stored, in the order in which they arrived. None once the upload ended."),
    ]


# The OpenAPI schema of a part.
PART_FORM: dict[str, Any] = {
    "type": "object",
    "required": ["data"],
    "properties": {
        "data": {
            "type": "string",
            "format": "binary",
            "description": "Bytes of the file, at most 64 MiB.",
            "example": '{"custom_id": "r1", "method": "POST", "url": "/v1/completions", "body": {"model": "m"}}',
        },
    },
}
