"""The output processor: sampled tokens of one choice to its outputs, with text, log probabilities and finish reason."""

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from itertools import chain

import msgspec

from inference.engine.outputs import FinishReason, GenerationOutput, TokenLogprob, ToolCallDelta
from inference.engine.sampling import SamplingParams
from inference.engine.sampling.logprobs import RankedTokens
from inference.engine.sampling.sampler import SampledToken
from inference.engine.text import ReasoningParser, TextStream, ToolParser

DescribeToken = Callable[[int, float | None, RankedTokens], TokenLogprob]

MAX_COALESCED_TOKENS = 64  # per output: one output stays small, with all its log probabilities too


class PendingLogprobs:
    """Log probabilities of tokens whose text is not released yet."""

    def __init__(self) -> None:
        self._pending: deque[tuple[int, TokenLogprob]] = deque()

    def add(self, start: int, logprob: TokenLogprob) -> None:
        """Add a token whose text begins at character `start`."""
        self._pending.append((start, logprob))

    def release(self, end: int) -> tuple[TokenLogprob, ...]:
        """Return the tokens whose text begins before character `end`, and remove them."""
        released = []
        while self._pending and self._pending[0][0] < end:
            released.append(self._pending.popleft()[1])
        return tuple(released)


class OutputProcessor:
    """Outputs of one choice, one per token or coalesced. The last one has a finish reason; the engine adds usage."""

    def __init__(
        self,
        *,
        request_id: str,
        choice: int,
        sampling: SamplingParams,
        max_tokens: int,
        eos_ids: frozenset[int],
        text: TextStream,
        describe: DescribeToken,
        reasoning: ReasoningParser | None = None,
        tools: ToolParser | None = None,
        coalesce: bool = False,
    ) -> None:
        """Begin a choice. coalesce: an output holds up to MAX_COALESCED_TOKENS tokens."""
        self._request_id = request_id
        self._choice = choice
        self.max_tokens = max_tokens
        self._min_tokens = sampling.min_tokens
        self._end_ids = frozenset(sampling.stop_token_ids) | (frozenset() if sampling.ignore_eos else eos_ids)
        self._text = text
        self._describe = describe
        self._reasoning = reasoning
        self._tools = tools
        self._logprobs = PendingLogprobs() if sampling.logprobs is not None else None
        self._echo: tuple[str, tuple[TokenLogprob, ...]] = ("", ())
        self._coalesced: list[GenerationOutput] | None = [] if coalesce else None
        self.tokens = 0
        self.reasoning_tokens = 0
        self._is_reasoning_counted = False
        self._token_starts: list[int] = []  # first characters of the tokens before the content

    def set_echo(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> None:
        """Begin the first output with the prompt's text and log probabilities."""
        self._echo = text, logprobs

    def process(self, sampled: SampledToken) -> GenerationOutput | None:
        """Return the output of the next token, or None while tokens are coalesced."""
        return self._coalesce(self._process(sampled))

    def _coalesce(self, output: GenerationOutput) -> GenerationOutput | None:
        if self._coalesced is None:
            return output
        self._coalesced.append(output)
        if output.finish_reason is None and len(self._coalesced) < MAX_COALESCED_TOKENS:
            return None
        coalesced, self._coalesced = self._coalesced, []
        return _join(coalesced)

    def _process(self, sampled: SampledToken) -> GenerationOutput:
        if self._logprobs is not None and sampled.token not in self._end_ids:
            self._logprobs.add(self._text.length, self._describe(sampled.token, sampled.logprob, sampled.top))
        start = self._text.length
        text, finish_reason = self._detokenize(sampled.token, complete=sampled.complete)
        output = self._separate(self.tokens - 1, text, finish_reason)
        if self._reasoning is not None:
            self._count_reasoning(self._reasoning, start)
        return output

    def _separate(self, index: int, text: str, finish_reason: FinishReason | None) -> GenerationOutput:
        """Return an output with the next text, its reasoning, tool calls and log probabilities."""
        reasoning, calls = "", ()  # type: tuple[str, tuple[ToolCallDelta, ...]]
        if self._reasoning is not None:
            text, reasoning = self._separate_reasoning(self._reasoning, text, finish_reason)
        if self._tools is not None:
            text, calls, finish_reason = self._parse_tool_calls(self._tools, text, finish_reason)
        logprobs = () if self._logprobs is None else self._logprobs.release(self._text.released)
        if index == 0:
            text, logprobs = self._echo[0] + text, self._echo[1] + logprobs
        return GenerationOutput(
            request_id=self._request_id,
            index=index,
            text=text,
            choice=self._choice,
            logprobs=logprobs,
            tool_calls=calls,
            finish_reason=finish_reason,
            stop_sequence=self._text.stop_sequence,
            reasoning=reasoning,
        )

    def _separate_reasoning(self, parser: ReasoningParser, text: str, reason: FinishReason | None) -> tuple[str, str]:
        """Separate reasoning from content."""
        content, reasoning = parser.push(text)
        if reason is not None:
            last_content, last_reasoning = parser.finish()
            content, reasoning = content + last_content, reasoning + last_reasoning
        return content, reasoning

    def _count_reasoning(self, parser: ReasoningParser, start: int) -> None:
        """Count the last token, whose text begins at character `start`, if it is one of reasoning."""
        if self._is_reasoning_counted:
            return
        self._token_starts.append(start)
        if parser.content_start is not None:
            self.reasoning_tokens = bisect_left(self._token_starts, parser.content_start)
            self._is_reasoning_counted = True
            self._token_starts.clear()
        elif parser.reasons:
            self.reasoning_tokens = len(self._token_starts)

    def _parse_tool_calls(
        self, tools: ToolParser, text: str, reason: FinishReason | None
    ) -> tuple[str, tuple[ToolCallDelta, ...], FinishReason | None]:
        """Separate tool calls from text."""
        content, calls = tools.push(text)
        if reason is not None:
            content += tools.finish(is_cut=reason is FinishReason.LENGTH)
        if reason is FinishReason.STOP and tools.called:
            reason = FinishReason.TOOL_CALLS
        return content, calls, reason

    def _detokenize(self, token: int, *, complete: bool) -> tuple[str, FinishReason | None]:
        self.tokens += 1
        if token in self._end_ids and self.tokens > self._min_tokens:
            return self._text.flush(), FinishReason.STOP
        text = self._text.push(token)
        if self._text.stopped:
            return text, FinishReason.STOP
        if complete:
            return text + self._text.flush(), FinishReason.STOP
        if self.tokens == self.max_tokens:
            return text + self._text.flush(), FinishReason.LENGTH
        return text, None

    def finish_prompt(self) -> GenerationOutput:
        """Return the only output of a choice without tokens: the echoed prompt."""
        text, logprobs = self._echo
        return GenerationOutput(
            request_id=self._request_id,
            index=0,
            text=text,
            choice=self._choice,
            logprobs=logprobs,
            finish_reason=FinishReason.LENGTH,
        )

    def finish_early(self) -> GenerationOutput:
        """Return the last output of a choice that has no token left before its limit."""
        output = self._coalesce(self._separate(self.tokens, self._text.flush(), FinishReason.LENGTH))
        assert output is not None  # a last output is never held back
        return output

    def abort(self, reason: FinishReason, error: str | None = None, error_code: str | None = None) -> GenerationOutput:
        """Return the last output of a cancelled or failed choice, which has no token."""
        return GenerationOutput(
            request_id=self._request_id,
            index=self.tokens,
            text="",
            choice=self._choice,
            finish_reason=reason,
            error=error,
            error_code=error_code,
        )


def _join(outputs: list[GenerationOutput]) -> GenerationOutput:
    return msgspec.structs.replace(
        outputs[-1],
        index=outputs[0].index,
        tokens=len(outputs),
        text="".join(output.text for output in outputs),
        reasoning="".join(output.reasoning for output in outputs),
        logprobs=tuple(chain.from_iterable(output.logprobs for output in outputs)),
        tool_calls=tuple(chain.from_iterable(output.tool_calls for output in outputs)),
    )
