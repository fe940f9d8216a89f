"""OpenAPI texts and examples of the routes."""

from inference.access.docs import OperationDocs

HEALTH = OperationDocs(
    summary="Whether the service is whole",
    description="Degraded while a model that should be loaded is not.",
)


LIST_MODELS = OperationDocs(
    summary="List the models",
    description="All there are, loaded or not.",
)


LOAD_MODEL = OperationDocs(
    summary="Load a model",
    description="Answers when it is loaded, with the options in effect; goes on when the client leaves.",
)


UNLOAD_MODEL = OperationDocs(
    summary="Unload a model",
    description="Answers when its process is gone. Running requests finish first, unless `force` is true.",
)


OPENAI_LIST_MODELS = OperationDocs(
    summary="List the models (OpenAI)",
    description="All that can be loaded.",
)


OPENAI_MODEL = OperationDocs(
    summary="One model (OpenAI)",
    description="404 names those that there are.",
)
