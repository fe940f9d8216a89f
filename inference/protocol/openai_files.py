"""OpenAI's files."""

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from inference.engine import InvalidRequest
from inference.protocol.parameters import parse

Purpose = Literal["batch", "batch_output"]
SHORTEST_S, LONGEST_S = 3600, 30 * 24 * 3600

After = Annotated[str, Meta(max_length=100, description="The last id of the page before this one.")]


class FileObject(Struct):
    """One file. Times are Unix seconds; it is removed at `expires_at`."""

    id: str
    object: Literal["file"]
    bytes: int
    created_at: int
    expires_at: int
    filename: str
    purpose: Purpose
    status: Literal["processed"]


class FilePage(Struct):
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

    after: After | None = None
    limit: Annotated[int, Meta(ge=1, le=10_000)] = 10_000
    order: Literal["asc", "desc"] = "desc"
    purpose: Purpose | None = None


class FileForm(Struct, kw_only=True):
    """The form of an upload, beside its file."""

    purpose: Literal["batch"]
    anchor: Literal["created_at"] | None = None
    seconds: Annotated[int, Meta(ge=SHORTEST_S, le=LONGEST_S)] | None = None


# How OpenAPI tells the form of an upload.
UPLOAD_FORM: dict[str, Any] = {
    "type": "object",
    "required": ["file", "purpose"],
    "properties": {
        "file": {"type": "string", "format": "binary", "description": "JSON lines: one request each."},
        "purpose": {"type": "string", "enum": ["batch"]},
        "expires_after[anchor]": {"type": "string", "enum": ["created_at"]},
        "expires_after[seconds]": {"type": "integer", "minimum": SHORTEST_S, "maximum": LONGEST_S},
    },
}
_EXPIRES_AFTER = {"expires_after[anchor]": "anchor", "expires_after[seconds]": "seconds"}


def parse_file_form(fields: dict[str, str]) -> FileForm:
    """InvalidRequest names the field that is wrong. Unknown ones are ignored."""
    named = {_EXPIRES_AFTER.get(name, name): value for name, value in fields.items()}
    if "purpose" not in named:
        raise InvalidRequest("purpose is required: send batch.", field="purpose")
    if named["purpose"] != "batch":
        raise InvalidRequest("purpose is wrong: files are taken for batches only; send batch.", field="purpose")
    form = parse(named, FileForm, strict=False)
    if (form.anchor is None) != (form.seconds is None):
        raise InvalidRequest("expires_after is wrong: send both its anchor and its seconds.", field="expires_after")
    return form
