"""OpenAPI texts and examples of the routes."""

from inference.access.docs import OperationDocs

LOGIN = OperationDocs(
    summary="Sign in for a session token",
    description="401 is the same for every failure.",
)
