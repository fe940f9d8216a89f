"""How long a prompt may be, as far as that is known before it is tokenised: on either side of the socket. No torch."""

from math import ceil

import msgspec

from inference.engine.errors import ContextLengthExceeded
from inference.engine.requests import GenerationRequest, Message


class PromptLimits(msgspec.Struct, frozen=True):
    """context_size: tokens, of prompt and completion. longest_token: bytes that the longest one stands for."""

    context_size: int
    longest_token: int

    def check(self, request: GenerationRequest, more: int = 0) -> None:
        """Raises ContextLengthExceeded for what no tokens as long as they come can hold: counting them would take long.

        more: characters that go into the prompt beside what the request says.
        """
        if request.prompt_ids is not None:
            if len(request.prompt_ids) > self.context_size:
                raise self.too_long(len(request.prompt_ids), request.sampling.max_tokens)
            return
        messages = request.messages or ()
        characters = len(request.prompt or "") + sum(map(_length, messages)) + more
        least = max(ceil(characters / self.longest_token), len(messages))  # one that says nothing is a token at least
        if least > self.context_size:
            raise self.too_long(least, request.sampling.max_tokens, "at least ")

    def too_long(self, prompt_tokens: int, asked: int | None, least: str = "") -> ContextLengthExceeded:
        wanted = f"{least}{prompt_tokens} tokens and {asked or 'at least 1'} are to be generated"
        return ContextLengthExceeded(
            f"The prompt has {wanted}, but the context has {self.context_size}. "
            "Shorten the prompt or lower max_tokens.",
            context_size=self.context_size,
            prompt_tokens=prompt_tokens,
            max_tokens=asked,
        )


def _length(message: Message) -> int:
    calls = sum(len(call.id) + len(call.name) + len(call.arguments) for call in message.tool_calls)
    return len(message.content) + len(message.tool_call_id or "") + calls
