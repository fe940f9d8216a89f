"""Token counts of a response."""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from inference.engine import Usage

PromptTokens = Annotated[int, Meta(description="Number of tokens of the prompt.", examples=[5])]
CompletionTokens = Annotated[int, Meta(description="Number of generated tokens.", examples=[5])]
TotalTokens = Annotated[int, Meta(description="Sum of the token counts.", examples=[10])]
CachedTokens = Annotated[
    int, Meta(description="Number of prompt tokens that were read from the prefix cache.", examples=[0])
]

ReasoningTokens = Annotated[
    int,
    Meta(
        description="Number of generated tokens before the content: the model's reasoning, its tags included.",
        examples=[0],
    ),
]


class PromptTokensDetails(Struct):
    """Details of the prompt's tokens."""

    cached_tokens: CachedTokens


class CompletionTokensDetails(Struct):
    """Details of the generated tokens."""

    reasoning_tokens: ReasoningTokens


class TokenUsage(Struct):
    """Token counts of a generation."""

    prompt_tokens: PromptTokens
    completion_tokens: CompletionTokens
    total_tokens: TotalTokens
    prompt_tokens_details: Annotated[PromptTokensDetails, Meta(description="Details of the prompt's tokens.")]
    completion_tokens_details: (
        Annotated[
            CompletionTokensDetails,
            Meta(description="Details of the generated tokens, where reasoning is separated from the text."),
        ]
        | UnsetType
    ) = UNSET

    @classmethod
    def from_engine(cls, usage: Usage, *, separates_reasoning: bool = False) -> "TokenUsage":
        return cls(
            usage.prompt_tokens,
            usage.completion_tokens,
            usage.total_tokens,
            PromptTokensDetails(usage.cached_tokens),
            CompletionTokensDetails(usage.reasoning_tokens) if separates_reasoning else UNSET,
        )


class EmbeddingsTokenUsage(Struct):
    """Token counts of embedded texts."""

    prompt_tokens: PromptTokens
    total_tokens: TotalTokens
