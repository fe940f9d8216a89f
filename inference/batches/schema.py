"""OpenAPI texts and examples of the routes."""

from inference.access.docs import OperationDocs

CREATE_BATCH = OperationDocs(
    summary="Submit a batch",
    description="""
    Answers once the batch is written down with all its requests; from then on it is done, whatever breaks. With
    an `Idempotency-Key`, the same body again within a day is answered with the same batch.
    """,
)


LIST_BATCHES = OperationDocs(
    summary="List your batches",
    description="Newest first.",
)


BATCH_STATUS = OperationDocs(
    summary="One of your batches",
    description="Its counts never go back.",
)


CANCEL_BATCH = OperationDocs(
    summary="Cancel one of your batches",
    description="What is done is kept; what is running is dropped. One that has ended stays as it is.",
)


BATCH_RESULTS = OperationDocs(
    summary="What came of a batch",
    description="""
    In the order of the requests, while it runs as well. `Accept: application/x-ndjson` sends all there are as
    lines; `Accept: text/event-stream` follows until the batch has ended, and resumes from `Last-Event-ID`.
    """,
)
