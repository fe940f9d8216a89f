"""OpenAPI texts and examples of webhooks."""

from typing import Any

from inference.access.docs import OperationDocs

_WEBHOOK: dict[str, Any] = {
    "id": "wh_1f0c2a53d9c64ab2f84e1d07",
    "url": "https://hooks.example.com/stoa",
    "events": ["batch.complete"],
    "enabled": True,
    "disabled_by": None,
    "previous_secret_until": None,
    "created_at": "2026-11-21T18:00:00Z",
    "updated_at": "2026-11-21T18:00:00Z",
}
_WEBHOOK_WITH_SECRET = _WEBHOOK | {"secret": "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwMfKQ9r8GKYo="}
_DELIVERY: dict[str, Any] = {
    "id": "msg_6a2f7c1d9e4b83505f1ce2d7",
    "event": "batch.complete",
    "url": "https://hooks.example.com/stoa",
    "state": "delivered",
    "attempt_count": 1,
    "next_attempt_at": None,
    "created_at": "2026-11-21T18:05:00Z",
    "finished_at": "2026-11-21T18:05:00.210Z",
}
_ATTEMPT = {
    "number": 1,
    "started_at": "2026-11-21T18:05:00.050Z",
    "duration_ms": 160,
    "status": 200,
    "failure": None,
}
_MESSAGE = {
    "type": "batch.complete",
    "event": "batch.complete",
    "timestamp": "2026-11-21T18:05:00.000Z",
    "data": {"batch_id": "batch_5f1ce2d76a2f7c1d9e4b8350", "status": "completed", "total": 3},
}
_OWN_TEXT = """It needs the permission `run_inference`. It answers 404 for a webhook that does not exist or belongs to
    another user."""

LIST_WEBHOOKS = OperationDocs(
    summary="List your webhooks",
    description="""
    Returns all your webhooks, newest first, without their secrets. The list includes the default webhook, which
    signs the messages to the `webhook_url` of single batches, once you have sent one. It needs the permission
    `run_inference`.
    """,
    response_example={"webhooks": [_WEBHOOK]},
)

CREATE_WEBHOOK = OperationDocs(
    summary="Create a webhook",
    description="""
    Registers a URL that receives a signed message for each event, as Standard Webhooks describes. The response has the
    secret that signs the messages; it is not shown again. It needs the permission `run_inference`. It answers 400 for a
    URL that is not of a public server, for one that you have registered already and for too many webhooks.
    """,
    request_examples={
        "Enabled": {"url": "https://hooks.example.com/stoa"},
        "Disabled": {"url": "https://hooks.example.com/later", "events": ["batch.complete"], "enabled": False},
    },
    response_example=_WEBHOOK_WITH_SECRET,
)

READ_WEBHOOK = OperationDocs(
    summary="Get one webhook",
    description=f"""
    Returns one of your webhooks without its secret. {_OWN_TEXT}
    """,
    response_example=_WEBHOOK,
)

UPDATE_WEBHOOK = OperationDocs(
    summary="Change a webhook",
    description=f"""
    Changes the given fields of one of your webhooks and keeps the others. Pending deliveries are sent to a new URL,
    and are cancelled when the webhook is disabled. It answers 400 for a URL that is not of a public server, and for
    changes of the default webhook other than `enabled`. {_OWN_TEXT}
    """,
    request_examples={
        "New URL": {"url": "https://hooks.example.com/new"},
        "Disable": {"enabled": False},
    },
    response_example=_WEBHOOK | {"url": "https://hooks.example.com/new"},
)

DELETE_WEBHOOK = OperationDocs(
    summary="Delete a webhook",
    description=f"""
    Deletes one of your webhooks with its deliveries; pending ones are not sent. It answers 400 for a webhook that an
    operator has disabled. {_OWN_TEXT}
    """,
    response_example={"id": _WEBHOOK["id"], "deleted": True},
)

ROTATE_SECRET = OperationDocs(
    summary="Rotate a webhook's secret",
    description=f"""
    Creates a new secret for one of your webhooks and returns it; it is not shown again. For 24 hours messages are
    signed with the previous secret as well. {_OWN_TEXT}
    """,
    response_example=_WEBHOOK_WITH_SECRET | {"previous_secret_until": "2026-11-22T18:00:00Z"},
)

LIST_DELIVERIES = OperationDocs(
    summary="List the deliveries of a webhook",
    description=f"""
    Returns a page of the messages to one of your webhooks, newest first. A delivery is kept for seven days after
    its end. It answers 400 if `after` is not one of these deliveries. {_OWN_TEXT}
    """,
    response_example={"deliveries": [_DELIVERY], "next": None},
)

READ_DELIVERY = OperationDocs(
    summary="Get one delivery",
    description=f"""
    Returns one message to your webhook with its body and its attempts. The receiver's response bodies are not stored.
    {_OWN_TEXT}
    """,
    response_example=_DELIVERY | {"body": _MESSAGE, "attempts": [_ATTEMPT]},
)

REDELIVER = OperationDocs(
    summary="Send a delivery again",
    description=f"""
    Sends a message again now, with the same id and body, and retries on failure as for a new message. It answers
    400 while the delivery is being sent and while the webhook is disabled. {_OWN_TEXT}
    """,
    response_example=_DELIVERY | {"state": "pending", "next_attempt_at": "2026-11-21T18:07:00Z", "finished_at": None},
)
