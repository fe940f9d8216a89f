"""OpenAPI texts and examples of the routes."""

from inference.access.docs import OperationDocs

INFERENCE = OperationDocs(
    summary="Generate text from a prompt",
    description="With `stream: true`, the answer is that of /inference/stream.",
)


INFERENCE_STREAM = OperationDocs(
    summary="Generate text from a prompt, as events",
    description="""
    One event a token, then one with `done`; a failure in mid stream is an event with `error` and the end.
    """,
)


CHAT_COMPLETIONS = OperationDocs(
    summary="Chat (OpenAI)",
    description="With `stream: true`, chunks as OpenAI's clients expect them, and `[DONE]`.",
)

COMPLETIONS = OperationDocs(
    summary="Complete prompts (OpenAI)",
    description="The prompts are continued as they stand. With `stream: true`, chunks as OpenAI's clients expect them.",
)
