"""OpenAPI texts and examples of the routes."""

from inference.access.docs import OperationDocs

CREATE_BATCH = OperationDocs(
    summary="Make a batch of a file (OpenAI)",
    description="""
    The whole file is checked first: `failed`, with `errors` by line, or `in_progress`, and then it is kept. With
    an `Idempotency-Key`, the same body again within a day is answered with the same batch.
    """,
)


LIST_BATCHES = OperationDocs(
    summary="List your batches of files (OpenAI)",
    description="Your own, newest first.",
)


READ_BATCH = OperationDocs(
    summary="One batch (OpenAI)",
    description="Where it is, and the files that it has written.",
)


CANCEL_BATCH = OperationDocs(
    summary="Cancel a batch (OpenAI)",
    description="What was done is kept, and written to its files.",
)
