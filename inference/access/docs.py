"""Texts and examples of an operation for the OpenAPI document."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class OperationDocs:
    """What a client developer reads about an operation.

    summary: up to eight words.
    description: full sentences in Markdown: what the operation does, who may call it, what it returns, which errors.
    request_examples: bodies that the built-in models accept, by their titles.
    response_example: the body that answers the first of them.
    """

    summary: str
    description: str
    request_examples: Mapping[str, Any] = field(default_factory=dict)
    response_example: Any = None
