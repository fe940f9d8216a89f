"""OpenAPI texts of the routes of attachments."""

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, extend_schema, extend_schema_view

from commerce.attachments.serializers import (
    AttachmentWriteSerializer,
    FinalizeSerializer,
    PresignedSerializer,
    PresignSerializer,
    UploadedSerializer,
)

TAGS = ["Attachments"]
FILE_TYPES = "JPEG, PNG, WebP, GIF, AVIF, PDF, ZIP and EPUB files are accepted; the type is detected from the content."
UPLOAD_ERRORS = (
    "Returns 413, which says what is left, for more than your quota, 422 for a file of another type, over "
    "10 MiB or with a virus, 429 after too many uploads a minute and 503 while files cannot be stored."
)
MEDIA = "https://shop.example/media/attachments/9f86d081884c7d659a2feaa0c55ad015"
UPLOADED = {
    "id": 41,
    "original": f"{MEDIA}/teapot.jpg",
    "thumbnail": f"{MEDIA}/sizes/thumbnail.webp",
    "alt": "A blue teapot",
    "focal_point": {"x": 0.4, "y": 0.6},
    "variants": [{"url": f"{MEDIA}/sizes/w320.webp", "width": 320, "height": 240, "avif": f"{MEDIA}/sizes/w320.avif"}],
}
PRESIGNED = {
    "upload_id": "WzQyLCI5Zjg2ZDA4MTg4NGM3ZDY1OSIsInRlYXBvdC5qcGciXQ:1vHk2q:mZ4",
    "url": "https://s3.example/stoa",
    "fields": {"key": "incoming/9f86d081884c7d65/file", "policy": "eyJleHBpcm...", "x-amz-signature": "5d41402a..."},
    "expires_at": "2026-01-10T10:45:00.000000Z",
}
ATTACHMENT = UPLOADED | {"created_at": "2026-01-10T10:30:00.000000Z", "updated_at": "2026-01-10T10:30:00.000000Z"}
# The view parses the form itself, so that its errors can name the files.
UPLOAD_FORM = {
    "multipart/form-data": {
        "type": "object",
        "required": ["attachment[]"],
        "properties": {
            "attachment[]": {
                "type": "array",
                "minItems": 1,
                "maxItems": 10,
                "items": {"type": "string", "format": "binary"},
                "description": "Up to 10 files of up to 10 MiB each.",
            }
        },
    }
}

describe_attachments = extend_schema_view(
    list=extend_schema(
        operation_id="list_attachments",
        tags=TAGS,
        summary="List attachments",
        description="Returns a page of all attachments, the newest first. No credentials are needed.",
        auth=[],
    ),
    create=extend_schema(
        operation_id="upload_attachments",
        tags=TAGS,
        summary="Upload files",
        description="Stores the files of a multipart form and returns their attachments: all of them, or none if one "
        f"is refused. Any signed-in user may call this. {FILE_TYPES} {UPLOAD_ERRORS}",
        request=UPLOAD_FORM,
        responses=UploadedSerializer(many=True),
        examples=[OpenApiExample("Uploaded", value=UPLOADED, response_only=True)],
    ),
    retrieve=extend_schema(
        operation_id="read_attachment",
        tags=TAGS,
        summary="Get an attachment",
        description="Returns one attachment. No credentials are needed.",
        auth=[],
        examples=[OpenApiExample("Attachment", value=ATTACHMENT, response_only=True)],
    ),
    update=extend_schema(
        operation_id="replace_attachment",
        tags=TAGS,
        summary="Change nothing",
        description="Attachments cannot be changed: this always returns `false`, for older clients. No credentials are "
        "needed.",
        auth=[],
        request=None,
        responses=OpenApiTypes.BOOL,
        examples=[OpenApiExample("Always", value=False, response_only=True)],
    ),
    partial_update=extend_schema(
        operation_id="describe_attachment",
        tags=TAGS,
        summary="Describe an image",
        description="Changes the fields that you send, of an image that you or the staff of your shops uploaded, and "
        "returns its attachment; any other is 404. Super admins may describe any image. "
        "Returns 422 for a file that is no image.",
        request=AttachmentWriteSerializer,
        examples=[
            OpenApiExample(
                "A teapot", value={"alt": "A blue teapot", "focal_point": {"x": 0.4, "y": 0.6}}, request_only=True
            ),
            OpenApiExample("Attachment", value=ATTACHMENT, response_only=True),
        ],
    ),
    destroy=extend_schema(
        operation_id="delete_attachment",
        tags=TAGS,
        summary="Delete an attachment and its files",
        description="Deletes an attachment that you or the staff of your shops uploaded, with its files, and returns "
        "`true`; any other is 404. Super admins may delete any attachment. "
        "Returns 429 after too many deletions a minute.",
        responses={200: OpenApiTypes.BOOL},
        examples=[OpenApiExample("Deleted", value=True, response_only=True)],
    ),
)

describe_presign = extend_schema_view(
    post=extend_schema(
        operation_id="presign_attachment",
        tags=TAGS,
        summary="Get a form for an upload to S3",
        description="Returns a form with which a browser sends one file to S3: post its fields, then the file as "
        "`file`, and call `/attachments/finalize`. Any signed-in user may call this. Returns 422 if the server does "
        "not store files in S3.",
        request=PresignSerializer,
        responses=PresignedSerializer,
        examples=[
            OpenApiExample("A file", value={"name": "teapot.jpg"}, request_only=True),
            OpenApiExample("The form", value=PRESIGNED, response_only=True),
        ],
    )
)

describe_finalize = extend_schema_view(
    post=extend_schema(
        operation_id="finalize_attachment",
        tags=TAGS,
        summary="Finish an upload to S3",
        description="Checks a file that you sent to S3 with a presigned form, and returns its attachment. Any "
        f"signed-in user may call this. {FILE_TYPES} Returns 404 for an upload that is not yours or has no file yet. "
        f"{UPLOAD_ERRORS}",
        request=FinalizeSerializer,
        responses=UploadedSerializer,
        examples=[
            OpenApiExample("The upload_id of the form", value={"upload_id": PRESIGNED["upload_id"]}, request_only=True),
            OpenApiExample("Uploaded", value=UPLOADED, response_only=True),
        ],
    )
)
