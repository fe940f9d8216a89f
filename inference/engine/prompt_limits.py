"""Limits of prompts that are checked before tokenization, by clients and by the engine. No torch."""

from math import ceil

import msgspec

from inference.engine.errors import ContextLengthExceeded
from inference.engine.requests import GenerationRequest, Message


class PromptLimits(msgspec.Struct, frozen=True):
    """Limits of a loaded model.

    context_size: tokens of prompt and completion.
    longest_token: bytes of the longest token.
    """

    context_size: int
    longest_token: int

    def check(self, request: GenerationRequest, extra_characters: int = 0) -> None:
        """Raise ContextLengthExceeded for a prompt that exceeds the context even if every token is the longest one.

        Tokenizing such a prompt would take long.
        extra_characters: characters of the prompt beside the request's text.
        """
        if request.prompt_ids is not None:
            if len(request.prompt_ids) > self.context_size:
                raise self.exceeded(len(request.prompt_ids), request.sampling.max_tokens)
            return
        messages = request.messages or ()
        characters = len(request.prompt or "") + sum(map(_length, messages)) + extra_characters
        min_tokens = max(ceil(characters / self.longest_token), len(messages))  # an empty message is a token at least
        if min_tokens > self.context_size:
            raise self.exceeded(min_tokens, request.sampling.max_tokens, "at least ")

    def exceeded(self, prompt_tokens: int, max_tokens: int | None, qualifier: str = "") -> ContextLengthExceeded:
        """Return the error for a prompt of so many tokens. qualifier: "at least " if they were not counted."""
        requested = prompt_tokens + (max_tokens or 1)
        return ContextLengthExceeded(
            # Frameworks recognize OpenAI's words.
            f"This model's maximum context length is {self.context_size} tokens. However, you requested {qualifier}"
            f"{requested} tokens ({qualifier}{prompt_tokens} in the prompt, {max_tokens or 'at least 1'} for the "
            "completion). Shorten the prompt or lower max_tokens.",
            context_size=self.context_size,
            prompt_tokens=prompt_tokens,
            max_tokens=max_tokens,
        )


def _length(message: Message) -> int:
    calls = sum(len(call.id) + len(call.name) + len(call.arguments) for call in message.tool_calls)
    return len(message.content) + len(message.tool_call_id or "") + calls
