"""OpenAPI texts and examples of the routes."""

from inference.access.docs import OperationDocs

TRACES = OperationDocs(
    summary="What was done for requests of the last day, span by span",
    description="Newest first. Your user's own, unless you may manage models: then everybody's.",
)
