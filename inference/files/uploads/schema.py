"""OpenAPI texts and examples of uploads."""

from inference.access.docs import OperationDocs
from inference.files.schema import FILE_EXAMPLE

_UPLOAD = {
    "id": "upload_5b8d1f0c9a7e4d2b8c3f6a10",
    "object": "upload",
    "bytes": 4096,
    "created_at": 1795276179,
    "expires_at": 1795279779,
    "filename": "requests.jsonl",
    "purpose": "batch",
    "status": "pending",
    "file": None,
}
_PART = {
    "id": "part_0c9a7e4d2b8c3f6a105b8d1f",
    "object": "upload.part",
    "created_at": 1795276179,
    "upload_id": _UPLOAD["id"],
    "bytes": 4096,
}
_OWN_TEXT = """It needs the permission `run_inference`. It answers 404 for an upload that does not exist or belongs to
    another user, and 409 for one that has ended or expired."""

CREATE_UPLOAD = OperationDocs(
    summary="Create an upload",
    description="""
    Announces a file that comes in parts, so that a broken connection costs one part. It expires an hour after its
    last part, and a day after its creation. It needs the permission `run_inference`. It answers 413 for a file that
    is too large or exceeds the storage that your files may take together.
    """,
    request_examples={
        "A small file": {
            "bytes": 4096,
            "filename": "requests.jsonl",
            "mime_type": "application/jsonl",
            "purpose": "batch",
        }
    },
    response_example=_UPLOAD,
)

READ_UPLOAD = OperationDocs(
    summary="Read an upload",
    description="""
    Returns an upload and the parts that have arrived, in the order in which they did, so that an interrupted client
    can send what is missing. It has no parts once it is completed, cancelled or expired; some time after that it is
    removed. It needs the permission `run_inference`. It answers 404 for an upload that does not exist, no longer
    exists or belongs to another user.
    """,
    response_example=_UPLOAD | {"parts": [_PART]},
)

ADD_PART = OperationDocs(
    summary="Add a part",
    description=f"""
    Stores a part of the file, of 64 MiB at most. Parts may come in any order and at once. A part that was sent twice
    may be left out when the upload is completed; it answers 413 once all parts have more than twice the bytes that
    were announced. {_OWN_TEXT}
    """,
    response_example=_PART,
)

COMPLETE_UPLOAD = OperationDocs(
    summary="Complete an upload",
    description=f"""
    Makes the file of the parts in the given order. It answers 400 if they have other bytes in all than the upload
    announced, or another MD5; the upload is then still pending. Repeated, it returns the same file. {_OWN_TEXT}
    """,
    request_examples={"One part": {"part_ids": [_PART["id"]]}},
    response_example=_UPLOAD | {"status": "completed", "file": FILE_EXAMPLE},
)

CANCEL_UPLOAD = OperationDocs(
    summary="Cancel an upload",
    description=f"Ends an upload; its parts are deleted. {_OWN_TEXT}",
    response_example=_UPLOAD | {"status": "cancelled"},
)
