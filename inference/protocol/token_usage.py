"""Token counts of an answer."""

from msgspec import Struct

from inference.engine import Usage


class PromptTokensDetails(Struct):
    """`cached_tokens`: those that were not computed again."""

    cached_tokens: int


class TokenUsage(Struct):
    """True token counts."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails

    @classmethod
    def of(cls, usage: Usage) -> "TokenUsage":
        details = PromptTokensDetails(usage.cached_tokens)
        return cls(usage.prompt_tokens, usage.completion_tokens, usage.total_tokens, details)


class EmbeddingsTokenUsage(Struct):
    """True token counts."""

    prompt_tokens: int
    total_tokens: int
