"""Token estimates of requests, made before their model tokenizes them."""

import json
from collections.abc import Iterator
from itertools import chain
from math import ceil

from inference.engine import EmbeddingRequest, GenerationRequest, Message, ScoringRequest, Tool

BYTES_PER_TOKEN = 4  # English text has at least so many, most other languages have fewer
TOKENS_PER_MESSAGE = 8  # that a chat template adds around a message
# Reserved for each choice of a request without max_tokens: it may use the whole context, but seldom does.
ASSUMED_MAX_TOKENS = 1024


def estimate_generation_tokens(request: GenerationRequest) -> int:
    """Estimate the prompt and completion tokens of a generation.

    The prompt includes all text that a chat template may put into it, such as tool definitions.
    """
    messages = request.messages or ()
    texts = [request.prompt or "", *chain(*map(_message_texts, messages), *map(_tool_texts, request.tools))]
    prompt_tokens = len(request.prompt_ids or ()) + sum(map(estimate_text_tokens, texts))
    prompt_tokens += TOKENS_PER_MESSAGE * len(messages)
    max_tokens = ASSUMED_MAX_TOKENS if request.sampling.max_tokens is None else request.sampling.max_tokens
    return max(1, prompt_tokens + max_tokens * request.n)


def estimate_embedding_tokens(request: EmbeddingRequest) -> int:
    """Estimate the tokens of the texts to embed."""
    return max(1, sum(estimate_text_tokens(text) if isinstance(text, str) else len(text) for text in request.texts))


def estimate_scoring_tokens(request: ScoringRequest) -> int:
    """Estimate the tokens of the texts to score, each with its query, or of a context with its questions."""
    queries = sum(map(estimate_text_tokens, request.queries))
    repeated = len(request.texts) if len(request.queries) == 1 else 1
    questions = sum(estimate_text_tokens(question.text) for question in request.questions)
    texts = estimate_text_tokens(request.context) + sum(map(estimate_text_tokens, request.texts))
    return max(1, queries * repeated + texts + questions)


def estimate_text_tokens(text: str) -> int:
    """Estimate the tokens of a text."""
    size = len(text) if text.isascii() else len(text.encode(errors="replace"))
    return ceil(size / BYTES_PER_TOKEN)


def _message_texts(message: Message) -> Iterator[str]:
    yield from (message.content, message.tool_call_id or "")
    for call in message.tool_calls:
        yield from (call.id, call.name, call.arguments)


def _tool_texts(tool: Tool) -> Iterator[str]:
    yield from (tool.name, tool.description, json.dumps(tool.parameters or {}, ensure_ascii=False))
