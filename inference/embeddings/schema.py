"""OpenAPI texts and examples of the routes."""

from inference.access.docs import OperationDocs

EMBEDDINGS = OperationDocs(
    summary="Embed texts",
    description="One vector a text, in the order of the input.",
)


OPENAI_EMBEDDINGS = OperationDocs(
    summary="Embed texts (OpenAI)",
    description="One vector a text, in the order of the input. Token ids are taken as they stand.",
)
