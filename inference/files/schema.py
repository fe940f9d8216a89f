"""OpenAPI texts and examples of files."""

from inference.access.docs import OperationDocs

FILE_EXAMPLE = {
    "id": "file-5b8d1f0c9a7e4d2b8c3f6a10",
    "object": "file",
    "bytes": 4096,
    "created_at": 1795276179,
    "expires_at": 1795880979,
    "filename": "requests.jsonl",
    "purpose": "batch",
    "status": "processed",
}
_OWN_TEXT = """It needs the permission `run_inference`. It answers 404 for a file that does not exist or belongs to
    another user."""

UPLOAD_FILE = OperationDocs(
    summary="Upload a file",
    description="""
    Stores a file of JSON lines, one request per line, as the input of a batch. The lines are checked when a batch
    is created from the file. It needs the permission `run_inference`. It answers 400 for a purpose other than
    `batch` and 413 for a file that is too large or exceeds the storage that your files may take together.
    """,
    response_example=FILE_EXAMPLE,
)

LIST_FILES = OperationDocs(
    summary="List your files",
    description="""
    Returns a page of your files, newest first unless `order` says otherwise, including the output files of your
    batches. It needs the permission `run_inference`. It answers 404 if `after` is not one of your files.
    """,
    response_example={
        "object": "list",
        "data": [FILE_EXAMPLE],
        "first_id": FILE_EXAMPLE["id"],
        "last_id": FILE_EXAMPLE["id"],
        "has_more": False,
    },
)

READ_FILE = OperationDocs(
    summary="Get one file",
    description=f"""
    Returns the name, size and expiry time of one of your files. `GET /v1/files/{{file_id}}/content` returns its
    content. {_OWN_TEXT}
    """,
    response_example=FILE_EXAMPLE,
)

DELETE_FILE = OperationDocs(
    summary="Delete a file",
    description=f"""
    Deletes one of your files with its content at once. Batches that were created from it continue. {_OWN_TEXT}
    """,
    response_example={"id": FILE_EXAMPLE["id"], "object": "file", "deleted": True},
)

FILE_CONTENT = OperationDocs(
    summary="Download a file",
    description=f"""
    Returns the content of one of your files, byte by byte as it was stored. {_OWN_TEXT}
    """,
)
