"""Texts and examples of an operation for the OpenAPI document."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# The built-in models, which all examples use.
TEXT_MODEL, EMBEDDING_MODEL = "stoa-describer", "stoa-encoder"


@dataclass(frozen=True, kw_only=True)
class OperationDocs:
    """The texts and examples of one operation, for client developers.

    summary: up to eight words.
    description: full sentences in Markdown: what the operation does, who may call it, what it returns, which errors.
    request_examples: bodies that the built-in models accept, by their titles.
    response_example: the body that answers the first of them.
    event_example: one event of its stream.
    """

    summary: str
    description: str
    request_examples: Mapping[str, Any] = field(default_factory=dict)
    response_example: Any = None
    event_example: Any = None


def token_usage_example(prompt_tokens: int, completion_tokens: int) -> dict[str, Any]:
    """Return the `usage` of a generation."""
    return {
        "prompt_tokens": prompt_tokens,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt_tokens + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": 0},
    }
