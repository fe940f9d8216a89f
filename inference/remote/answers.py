"""What another server answers, in OpenAI's form, as outputs of a generation. Pieces go on as they come."""

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta

from inference.engine import FinishReason, StepOutput, TokenLogprob, ToolCallDelta, Usage

UNKNOWN_TOKEN = -1  # another server tells texts, not ids

_REASONS = {
    "length": FinishReason.LENGTH,
    "tool_calls": FinishReason.TOOL_CALLS,
    "function_call": FinishReason.TOOL_CALLS,
}


Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]  # it is charged to whoever asked


class BrokenAnswer(Exception):
    """What came cannot be used; the message goes behind "The server behind X"."""


class _Function(msgspec.Struct):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct):
    index: int | None = None
    id: str | None = None
    function: _Function = msgspec.field(default_factory=_Function)


class _Logprob(msgspec.Struct):
    token: str
    logprob: float
    bytes: list[Annotated[int, Meta(ge=0, le=255)]] | None = None
    top_logprobs: list["_Logprob"] = []

    def told(self) -> TokenLogprob:
        data = self.token.encode() if self.bytes is None else bytes(self.bytes)
        return TokenLogprob(
            UNKNOWN_TOKEN, self.token, data, self.logprob, tuple(one.told() for one in self.top_logprobs)
        )


class _Logprobs(msgspec.Struct):
    content: list[_Logprob] | None = None


class _Piece(msgspec.Struct):
    content: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct):
    """Of a chat or of a raw prompt, a piece of it or the whole."""

    index: int = 0
    delta: _Piece | None = None
    message: _Piece | None = None
    text: str | None = None
    logprobs: _Logprobs | None = None
    finish_reason: str | None = None

    @property
    def piece(self) -> _Piece:
        return self.delta or self.message or _Piece(self.text)


class _CachedTokens(msgspec.Struct):
    cached_tokens: Count | None = None


class _Usage(msgspec.Struct):
    prompt_tokens: Count
    completion_tokens: Count = 0
    prompt_tokens_details: _CachedTokens | None = None


class _Answer(msgspec.Struct):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: Any = None


class _Vector(msgspec.Struct):
    embedding: list[float]
    index: int


class EmbeddingsAnswer(msgspec.Struct):
    """What an embeddings address answers."""

    data: list[_Vector]
    usage: _Usage


class Reading:
    """Makes outputs of the pieces of one answer, for `n` choices; each ends once, the last with the usage."""

    def __init__(self, n: int) -> None:
        self._n = n
        self._indexes = [0] * n
        self._calls = [0] * n
        self._ended: dict[int, FinishReason] = {}
        self._usage: Usage | None = None

    def take(self, data: bytes) -> Iterator[StepOutput]:
        """The outputs that one piece, or a whole answer, becomes. Raises BrokenAnswer."""
        try:
            answer = msgspec.json.decode(data, type=_Answer)
        except msgspec.DecodeError as error:
            raise BrokenAnswer("sent what is no answer in OpenAI's form") from error
        if answer.error is not None:
            raise BrokenAnswer("failed while it wrote this; try again")
        if answer.usage is not None:
            self._usage = _usage(answer.usage)
        for choice in answer.choices:
            yield from self._choice(choice)

    def end(self) -> Iterator[StepOutput]:
        """The last choice's end. Raises BrokenAnswer when the answer was not whole."""
        if len(self._ended) < self._n:
            raise BrokenAnswer("broke off before the generation was whole")
        if self._usage is None:
            raise BrokenAnswer(
                "does not tell how many tokens a stream used; its operator can set stream_usage to false"
            )
        yield self._end_of(next(reversed(self._ended)), self._usage)

    def _choice(self, choice: _Choice) -> Iterator[StepOutput]:
        place = choice.index
        if not 0 <= place < self._n or place in self._ended:
            raise BrokenAnswer("sent a choice that was not asked for")
        piece, told = choice.piece, tuple(one.told() for one in (choice.logprobs and choice.logprobs.content) or ())
        calls = tuple(self._call(place, number, call) for number, call in enumerate(piece.tool_calls or ()))
        if piece.content or told or calls:
            yield StepOutput(0, self._indexes[place], piece.content or "", place, told, calls)
            self._indexes[place] += 1
        if choice.finish_reason is not None:
            self._ended[place] = _REASONS.get(choice.finish_reason, FinishReason.STOP)
            if len(self._ended) < self._n:
                yield self._end_of(place, None)

    def _call(self, place: int, number: int, call: _Call) -> ToolCallDelta:
        index, begun = number if call.index is None else call.index, self._calls[place]
        if not 0 <= index <= begun:
            raise BrokenAnswer("sent a piece of a call that it had not begun")
        self._calls[place] = max(begun, index + 1)
        begins = index == begun
        return ToolCallDelta(
            index,
            (call.id or "") if begins else None,
            call.function.name if begins else None,
            call.function.arguments or "",
        )

    def _end_of(self, place: int, usage: Usage | None) -> StepOutput:
        return StepOutput(0, self._indexes[place], "", place, finish_reason=self._ended[place], usage=usage)


def _usage(usage: _Usage) -> Usage:
    cached = usage.prompt_tokens_details.cached_tokens if usage.prompt_tokens_details else None
    return Usage(usage.prompt_tokens, usage.completion_tokens, cached or 0)
