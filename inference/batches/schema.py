"""OpenAPI texts and examples of batches."""

from typing import Any

from inference.access.docs import TEXT_MODEL, OperationDocs, token_usage_example

_BATCH: dict[str, Any] = {
    "batch_id": "batch_0d6d4a4f2b1f5c6e7a8b9c0d",
    "status": "completed",
    "completed": 2,
    "failed": 0,
    "total": 2,
    "results_url": "/batch/batch_0d6d4a4f2b1f5c6e7a8b9c0d/results",
    "model": TEXT_MODEL,
    "created": 1795276179,
    "expires": 1795362579,
    "ended": 1795276180,
    "usage": {"prompt_tokens": 10, "completion_tokens": 17, "total_tokens": 27},
}
_OWN_TEXT = """It needs the permission `run_inference`. It answers 404 for a batch that does not exist or belongs to
    another user."""

CREATE_BATCH = OperationDocs(
    summary="Create a batch",
    description="""
    Stores many generations for one model, which run on capacity that interactive requests leave, and answers with
    the id of the batch. From then on every request is carried out, also across restarts. Sampling parameters of the
    batch apply to each request that does not set them. With `webhook_url` a signed message is sent there when the
    batch has ended.

    It needs the permission `run_inference`. It answers 400 for the first invalid request of the batch, 404 for an
    unknown model, 413 for a body that is too large and 429 if too many requests or tokens of yours are queued.
    """,
    request_examples={
        "Two requests": {
            "model": TEXT_MODEL,
            "requests": [
                {"id": "kettle", "prompt": "The kettle is made of"},
                {"id": "lamp", "prompt": "The lamp is made of", "max_tokens": 20, "seed": 7},
            ],
            "max_tokens": 12,
        }
    },
    response_example={
        "batch_id": _BATCH["batch_id"],
        "status": "processing",
        "total_requests": 2,
        "created": _BATCH["created"],
    },
)

LIST_BATCHES = OperationDocs(
    summary="List your batches",
    description="""
    Returns a page of your batches, newest first, including those that were created through `/v1/batches`. It needs the
    permission `run_inference`. It answers 404 if `after` is not one of your batches.
    """,
    response_example={"batches": [_BATCH], "next": None},
)

BATCH_STATUS = OperationDocs(
    summary="Get one batch",
    description=f"""
    Returns the status of one of your batches with the counts of its finished requests, which never decrease.
    {_OWN_TEXT}
    """,
    response_example=_BATCH,
)

CANCEL_BATCH = OperationDocs(
    summary="Cancel a batch",
    description=f"""
    Cancels the unfinished requests of one of your batches. Results that are already there are kept. A batch that has
    ended is returned unchanged. {_OWN_TEXT}
    """,
    response_example=_BATCH | {"status": "cancelled", "completed": 1},
)

_RESULT = {
    "id": "kettle",
    "index": 0,
    "status": "completed",
    "choices": [{"text": " brushed steel.", "index": 0, "finish_reason": "stop"}],
    "usage": token_usage_example(5, 5),
    "error": None,
    "processing_time_ms": 24,
}
BATCH_RESULTS = OperationDocs(
    summary="Get the results of a batch",
    description=f"""
    Returns a page of results in the order of the requests, also while the batch is running. With `Accept:
    application/x-ndjson` it returns all results so far as JSON lines. With `Accept: text/event-stream` it sends each
    result as an event until the batch has ended; `Last-Event-ID` resumes such a stream. {_OWN_TEXT}
    """,
    response_example={
        "batch_id": _BATCH["batch_id"],
        "status": "completed",
        "model": TEXT_MODEL,
        "total": 2,
        "completed": 2,
        "failed": 0,
        "results": [_RESULT],
        "next": None,
    },
    event_example=_RESULT,
)
