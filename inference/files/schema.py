"""OpenAPI texts and examples of the routes."""

from inference.access.docs import OperationDocs

UPLOAD_FILE = OperationDocs(
    summary="Upload a file for a batch (OpenAI)",
    description="JSON lines, a request each; they are checked when a batch is made of them.",
)


LIST_FILES = OperationDocs(
    summary="List your files (OpenAI)",
    description="Your own, newest first; those that batches have written too.",
)


READ_FILE = OperationDocs(
    summary="One file (OpenAI)",
    description="What it is; its content has an address of its own.",
)


DELETE_FILE = OperationDocs(
    summary="Delete a file (OpenAI)",
    description="It and its content go at once. Batches that were made of it go on.",
)


FILE_CONTENT = OperationDocs(
    summary="A file's content (OpenAI)",
    description="As it was stored.",
)
