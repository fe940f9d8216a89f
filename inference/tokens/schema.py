"""OpenAPI texts and examples of the routes."""

from inference.access.docs import OperationDocs

TOKENIZE = OperationDocs(
    summary="Turn a text into tokens",
    description="With the first and last tokens that the model's tokenizer adds by itself.",
)


DETOKENIZE = OperationDocs(
    summary="Turn tokens into a text",
    description="Without control tokens; half a character becomes U+FFFD.",
)
