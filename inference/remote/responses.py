"""Responses of a remote server in OpenAI's form, as the outputs of a generation."""

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from inference.engine import FinishReason, StepOutput, TokenLogprob, ToolCallDelta, Usage

UNKNOWN_TOKEN_ID = -1  # OpenAI's API has texts, not ids

_FINISH_REASONS = {
    "length": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
}


TokenCount = Annotated[int, Meta(ge=0, le=2**31 - 1)]  # bounded, since it counts against the client's limits


class InvalidResponse(Exception):
    """A response that cannot be used. The message completes the sentence "The server of X ..."."""


class UnknownForm(InvalidResponse):
    """A response that is not in OpenAI's form: its server is none of OpenAI's API, or is broken."""

    def __init__(self) -> None:
        super().__init__("sent a response that is not in OpenAI's form")


class _FunctionPart(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _ToolCallPart(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _FunctionPart = msgspec.field(default_factory=_FunctionPart)


class _Logprob(msgspec.Struct):
    token: str
    logprob: float
    bytes: list[Annotated[int, Meta(ge=0, le=255)]] | None = None
    top_logprobs: list["_Logprob"] = []

    def to_engine(self) -> TokenLogprob:
        data = self.token.encode() if self.bytes is None else bytes(self.bytes)
        top = tuple(logprob.to_engine() for logprob in self.top_logprobs)
        return TokenLogprob(UNKNOWN_TOKEN_ID, self.token, data, self.logprob, top)


class _Logprobs(msgspec.Struct):
    content: list[_Logprob] | None = None


class _MessagePart(msgspec.Struct):
    content: str | None = None
    tool_calls: list[_ToolCallPart] | None = None
    reasoning_content: str | None = None


class _ChoicePart(msgspec.Struct):
    """A choice of a chat or of a completion, complete or a part of it."""

    index: int = 0
    delta: _MessagePart | None = None
    message: _MessagePart | None = None
    text: str | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None

    @property
    def part(self) -> _MessagePart:
        return self.delta or self.message or _MessagePart(self.text)


class _PromptTokensDetails(msgspec.Struct):
    cached_tokens: TokenCount | None = None


class _CompletionTokensDetails(msgspec.Struct):
    reasoning_tokens: TokenCount | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: TokenCount
    completion_tokens: TokenCount = 0
    prompt_tokens_details: _PromptTokensDetails | None = None
    completion_tokens_details: _CompletionTokensDetails | None = None

    def to_engine(self) -> Usage:
        prompt, completion = self.prompt_tokens_details, self.completion_tokens_details
        return Usage(
            self.prompt_tokens,
            self.completion_tokens,
            (prompt.cached_tokens if prompt else None) or 0,
            reasoning_tokens=(completion.reasoning_tokens if completion else None) or 0,
        )


class _GenerationBody(msgspec.Struct):
    choices: list[_ChoicePart] = []
    usage: _Usage | None = None
    error: Any = None


class _Embedding(msgspec.Struct):
    embedding: list[float]
    index: int


class RemoteEmbeddings(msgspec.Struct):
    """The body of a response with embeddings."""

    data: list[_Embedding]
    usage: _Usage


class ResponseParser:
    """A parser of one response with `n` choices. Each choice ends once, and the last one has the usage."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._output_counts = [0] * n
        self._tool_call_counts = [0] * n
        self._finish_reasons: dict[int, FinishReason] = {}
        self._usage: Usage | None = None
        self._is_fed = False

    def feed(self, data: bytes) -> Iterator[StepOutput]:
        """Yield the outputs of a chunk or of a complete body. Raise InvalidResponse."""
        self._is_fed = True
        try:
            body = msgspec.json.decode(data, type=_GenerationBody)
        except msgspec.DecodeError as error:
            raise UnknownForm from error
        if body.error is not None:
            raise InvalidResponse("failed during the generation; try again")
        if body.usage is not None:
            self._usage = body.usage.to_engine()
        for choice in body.choices:
            yield from self._choice_outputs(choice)

    def finish(self) -> Iterator[StepOutput]:
        """Yield the end of the last choice. Raise InvalidResponse for an incomplete response."""
        if not self._is_fed:
            raise UnknownForm
        if len(self._finish_reasons) < self._n:
            raise InvalidResponse("ended the response before the generation was complete")
        if self._usage is None:
            raise InvalidResponse(
                "does not report the token usage of streams; its operator can set stream_usage to false"
            )
        yield self._end_output(next(reversed(self._finish_reasons)), self._usage)

    def _choice_outputs(self, choice: _ChoicePart) -> Iterator[StepOutput]:
        index = choice.index
        if not 0 <= index < self._n or index in self._finish_reasons:
            raise InvalidResponse("sent a choice that was not requested")
        text = choice.part.content or ""
        logprobs = (choice.logprobs and choice.logprobs.content) or ()
        tokens = tuple(logprob.to_engine() for logprob in logprobs)
        tool_calls = choice.part.tool_calls or ()
        calls = tuple(self._tool_call_delta(index, number, call) for number, call in enumerate(tool_calls))
        reasoning = choice.part.reasoning_content or ""
        if text or tokens or calls or reasoning:
            yield StepOutput(0, self._output_counts[index], text, index, tokens, calls, reasoning=reasoning)
            self._output_counts[index] += 1
        if choice.finish_reason is not None:
            self._finish_reasons[index] = _FINISH_REASONS.get(choice.finish_reason, FinishReason.STOP)
            if len(self._finish_reasons) < self._n:
                yield self._end_output(index, None)

    def _tool_call_delta(self, choice_index: int, number: int, call: _ToolCallPart) -> ToolCallDelta:
        index, call_count = number if call.index is None else call.index, self._tool_call_counts[choice_index]
        if not 0 <= index <= call_count:
            raise InvalidResponse("sent a part of a tool call that it had not begun")
        self._tool_call_counts[choice_index] = max(call_count, index + 1)
        is_first = index == call_count
        return ToolCallDelta(
            index,
            (call.id or "") if is_first else None,
            call.function.name if is_first else None,
            call.function.arguments or "",
        )

    def _end_output(self, index: int, usage: Usage | None) -> StepOutput:
        reason = self._finish_reasons[index]
        return StepOutput(0, self._output_counts[index], "", index, finish_reason=reason, usage=usage)
