"""OpenAPI texts and examples of the routes."""

from inference.access.docs import OperationDocs

LIST_WEBHOOKS = OperationDocs(
    summary="List your webhooks",
    description="With the default one, once you have given a `webhook_url`.",
)


CREATE_WEBHOOK = OperationDocs(
    summary="Make a webhook",
    description="Its secret is in this answer, and in no other.",
)


READ_WEBHOOK = OperationDocs(
    summary="One webhook",
    description="Without its secret.",
)


UPDATE_WEBHOOK = OperationDocs(
    summary="Change a webhook",
    description="What waits goes to the new address. Disabling it cancels what waits.",
)


DELETE_WEBHOOK = OperationDocs(
    summary="Delete a webhook",
    description="With its deliveries; what waits is not sent.",
)


ROTATE_SECRET = OperationDocs(
    summary="Rotate a webhook's secret",
    description="The new one is in this answer, and in no other. The one before it signs as well for 24 hours.",
)


LIST_DELIVERIES = OperationDocs(
    summary="What was sent to a webhook",
    description="Kept for seven days after their end.",
)


READ_DELIVERY = OperationDocs(
    summary="One delivery",
    description="With its attempts. What the receiver answered is not kept.",
)


REDELIVER = OperationDocs(
    summary="Send a delivery again",
    description="Now, with the same `webhook-id` and body, and by the whole schedule where that fails.",
)
