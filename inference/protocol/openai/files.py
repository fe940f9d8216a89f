"""Wire structs of /v1/files."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from inference.engine import InvalidRequest
from inference.protocol.parsing import parse_struct

FilePurpose = Literal["batch", "batch_output"]
MIN_EXPIRES_AFTER_SECONDS, MAX_EXPIRES_AFTER_SECONDS = 3600, 30 * 24 * 3600

FILE_ID_EXAMPLE = "file-5b8d1f0c9a7e4d2b8c3f6a10"
FileId = Annotated[str, Meta(description="Id of the file.", examples=[FILE_ID_EXAMPLE])]
FileExpirySeconds = Annotated[
    int,
    Meta(
        ge=MIN_EXPIRES_AFTER_SECONDS,
        le=MAX_EXPIRES_AFTER_SECONDS,
        description="Seconds until the file is deleted.",
        examples=[604_800],
    ),
]


class FileObject(Struct):
    """One file."""

    id: FileId
    object: Annotated[Literal["file"], Meta(description="Kind of the object.")]
    bytes: Annotated[int, Meta(description="Size of the file in bytes.", examples=[4096])]
    created_at: Annotated[int, Meta(description="Time of the upload in Unix seconds.", examples=[1795276179])]
    expires_at: Annotated[
        int, Meta(description="Time in Unix seconds at which the file is deleted.", examples=[1795880979])
    ]
    filename: Annotated[str, Meta(description="Name of the uploaded file.", examples=["requests.jsonl"])]
    purpose: Annotated[
        FilePurpose, Meta(description="`batch` for the input of a batch, `batch_output` for what a batch wrote.")
    ]
    status: Annotated[Literal["processed"], Meta(description="Always `processed`.")]


class FileList(Struct):
    """A page of files."""

    object: Annotated[Literal["list"], Meta(description="Kind of the object.")]
    data: Annotated[list[FileObject], Meta(description="Files of the page.")]
    first_id: Annotated[
        str | None, Meta(description="Id of the first file of the page, or null.", examples=[FILE_ID_EXAMPLE])
    ]
    last_id: Annotated[
        str | None,
        Meta(
            description="Id of the last file of the page, which is `after` of the next page, or null.",
            examples=[FILE_ID_EXAMPLE],
        ),
    ]
    has_more: Annotated[bool, Meta(description="Whether another page follows.", examples=[False])]


class FileDeleted(Struct):
    """A deleted file."""

    id: FileId
    object: Annotated[Literal["file"], Meta(description="Kind of the object.")]
    deleted: Annotated[Literal[True], Meta(description="Always true.")]


class FilesQuery(Struct):
    """The page of files."""

    after: (
        Annotated[
            str,
            Meta(max_length=100, description="Id of the last file of the previous page.", examples=[FILE_ID_EXAMPLE]),
        ]
        | None
    ) = None
    limit: Annotated[int, Meta(ge=1, le=10_000, description="Maximum number of files.", examples=[100])] = 10_000
    order: Annotated[Literal["asc", "desc"], Meta(description="Order by upload time.")] = "desc"
    purpose: Annotated[FilePurpose | None, Meta(description="Purpose of the files.")] = None


class FileUploadForm(Struct, kw_only=True):
    """The fields of an upload beside its file."""

    purpose: Literal["batch"]
    anchor: Literal["created_at"] | None = None
    seconds: FileExpirySeconds | None = None


# The OpenAPI schema of an upload.
UPLOAD_FORM: dict[str, Any] = {
    "type": "object",
    "required": ["file", "purpose"],
    "properties": {
        "file": {
            "type": "string",
            "format": "binary",
            "description": "JSON lines with one request each.",
            "example": '{"custom_id": "r1", "method": "POST", "url": "/v1/completions", "body": {"model": "m"}}',
        },
        "purpose": {"type": "string", "enum": ["batch"], "description": "Purpose of the file: always `batch`."},
        "expires_after[anchor]": {
            "type": "string",
            "enum": ["created_at"],
            "description": "Start of the time until the file is deleted; it needs `expires_after[seconds]`.",
        },
        "expires_after[seconds]": {
            "type": "integer",
            "minimum": MIN_EXPIRES_AFTER_SECONDS,
            "maximum": MAX_EXPIRES_AFTER_SECONDS,
            "description": "Seconds until the file is deleted; it needs `expires_after[anchor]`.",
            "example": 604_800,
        },
    },
}
_EXPIRES_AFTER = {"expires_after[anchor]": "anchor", "expires_after[seconds]": "seconds"}


def parse_upload_form(fields: dict[str, str]) -> FileUploadForm:
    """Return the form; unknown fields are ignored. Raise InvalidRequest, which names the field."""
    form_fields = {_EXPIRES_AFTER.get(name, name): value for name, value in fields.items()}
    if "purpose" not in form_fields:
        raise InvalidRequest("`purpose` is required: send batch.", field="purpose")
    if form_fields["purpose"] != "batch":
        raise InvalidRequest("`purpose` must be batch: other files are not accepted.", field="purpose")
    form = parse_struct(form_fields, FileUploadForm, strict=False)
    if (form.anchor is None) != (form.seconds is None):
        raise InvalidRequest("`expires_after` must have both `anchor` and `seconds`.", field="expires_after")
    return form
