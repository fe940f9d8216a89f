"""OpenAI's files."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from inference.engine import InvalidRequest
from inference.protocol.parsing import parse_struct

FilePurpose = Literal["batch", "batch_output"]
MIN_EXPIRES_AFTER_SECONDS, MAX_EXPIRES_AFTER_SECONDS = 3600, 30 * 24 * 3600

AfterId = Annotated[str, Meta(max_length=100, description="The last id of the page before this one.")]


class FileObject(Struct):
    """One file. Times are Unix seconds; it is removed at `expires_at`."""

    id: str
    object: Literal["file"]
    bytes: int
    created_at: int
    expires_at: int
    filename: str
    purpose: FilePurpose
    status: Literal["processed"]


class FileList(Struct):
    """Some of the files of whoever asks."""

    object: Literal["list"]
    data: list[FileObject]
    first_id: str | None
    last_id: str | None
    has_more: bool


class FileDeleted(Struct):
    """The file is gone."""

    id: str
    object: Literal["file"]
    deleted: Literal[True]


class FilesQuery(Struct):
    """Which files are listed, and in which order."""

    after: AfterId | None = None
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 10_000
    order: Literal["asc", "desc"] = "desc"
    purpose: FilePurpose | None = None


class FileUploadForm(Struct, kw_only=True):
    """The form of an upload, beside its file."""

    purpose: Literal["batch"]
    anchor: Literal["created_at"] | None = None
    seconds: Annotated[int, Meta(ge=MIN_EXPIRES_AFTER_SECONDS, le=MAX_EXPIRES_AFTER_SECONDS)] | None = None


# How OpenAPI tells the form of an upload.
UPLOAD_FORM: dict[str, Any] = {
    "type": "object",
    "required": ["file", "purpose"],
    "properties": {
        "file": {"type": "string", "format": "binary", "description": "JSON lines: one request each."},
        "purpose": {"type": "string", "enum": ["batch"]},
        "expires_after[anchor]": {"type": "string", "enum": ["created_at"]},
        "expires_after[seconds]": {
            "type": "integer",
            "minimum": MIN_EXPIRES_AFTER_SECONDS,
            "maximum": MAX_EXPIRES_AFTER_SECONDS,
        },
    },
}
_EXPIRES_AFTER = {"expires_after[anchor]": "anchor", "expires_after[seconds]": "seconds"}


def parse_upload_form(fields: dict[str, str]) -> FileUploadForm:
    """InvalidRequest names the field that is wrong. Unknown ones are ignored."""
    named = {_EXPIRES_AFTER.get(name, name): value for name, value in fields.items()}
    if "purpose" not in named:
        raise InvalidRequest("purpose is required: send batch.", field="purpose")
    if named["purpose"] != "batch":
        raise InvalidRequest("purpose is wrong: files are taken for batches only; send batch.", field="purpose")
    form = parse_struct(named, FileUploadForm, strict=False)
    if (form.anchor is None) != (form.seconds is None):
        raise InvalidRequest("expires_after is wrong: send both its anchor and its seconds.", field="expires_after")
    return form
