"""OpenAPI texts and examples of batches of files."""

from inference.access.docs import TEXT_MODEL, OperationDocs

_BATCH = {
    "id": "batch_7d0f6c1e5a9b4832f1e0d9c8",
    "object": "batch",
    "endpoint": "/v1/chat/completions",
    "model": TEXT_MODEL,
    "errors": None,
    "input_file_id": "file-5b8d1f0c9a7e4d2b8c3f6a10",
    "completion_window": "24h",
    "status": "in_progress",
    "output_file_id": None,
    "error_file_id": None,
    "created_at": 1795276200,
    "in_progress_at": 1795276200,
    "expires_at": 1795362600,
    "finalizing_at": None,
    "completed_at": None,
    "failed_at": None,
    "expired_at": None,
    "cancelling_at": None,
    "cancelled_at": None,
    "request_counts": {"total": 20, "completed": 4, "failed": 0},
    "metadata": {"for": "spring catalogue"},
    "usage": {
        "input_tokens": 120,
        "output_tokens": 85,
        "total_tokens": 205,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    },
}
_OWN_TEXT = """It needs the permission `run_inference`. It answers 404 for a batch that does not exist or belongs to
    another user."""

CREATE_BATCH = OperationDocs(
    summary="Create a batch from a file",
    description="""
    Checks every line of an uploaded file and creates a batch, in the form of OpenAI's batches. The batch is
    `in_progress`, or `failed` with the errors by line. When it has ended, the responses are in its output file and
    the errors in its error file. It needs the permission `run_inference`. It answers 404 for a file that does not
    exist or belongs to another user, 400 for a file with another purpose, and 429 if too many requests or tokens of
    yours are queued.
    """,
    request_examples={
        "A file": {
            "input_file_id": _BATCH["input_file_id"],
            "endpoint": "/v1/chat/completions",
            "completion_window": "24h",
            "metadata": {"for": "spring catalogue"},
        },
    },
    response_example=_BATCH,
)

LIST_BATCHES = OperationDocs(
    summary="List your batches of files",
    description="""
    Returns a page of the batches that you created from files, newest first, in the form of OpenAI's API. It needs the
    permission `run_inference`. It answers 404 if `after` is not one of your batches.
    """,
    response_example={
        "object": "list",
        "data": [_BATCH],
        "first_id": _BATCH["id"],
        "last_id": _BATCH["id"],
        "has_more": False,
    },
)

READ_BATCH = OperationDocs(
    summary="Get one batch of a file",
    description=f"""
    Returns the status and the request counts of one of your batches, and the ids of its output and error files once
    they are written. {_OWN_TEXT}
    """,
    response_example=_BATCH,
)

CANCEL_BATCH = OperationDocs(
    summary="Cancel a batch of a file",
    description=f"""
    Cancels the unfinished requests of one of your batches. Responses that are already there are written to its output
    file. It answers 400 for a batch that has ended. {_OWN_TEXT}
    """,
    response_example=_BATCH | {"status": "cancelling", "cancelling_at": 1795276260},
)
