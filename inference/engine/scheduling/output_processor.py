"""One choice's sampled tokens to its outputs: its text, its log probabilities, and where it ends."""

from collections import deque
from collections.abc import Callable
from itertools import chain

import msgspec

from inference.engine.outputs import FinishReason, GenerationOutput, TokenLogprob, ToolCallDelta
from inference.engine.sampling import SamplingParams
from inference.engine.sampling.logprobs import Ranked
from inference.engine.sampling.sampler import Sampled
from inference.engine.text import TextStream, ToolParser

Describe = Callable[[int, float | None, Ranked], TokenLogprob]

GATHERED = 64  # tokens an output at most: what a reader gets at once stays small, with all their log probabilities too


class HeldLogprobs:
    """Log probabilities of tokens whose text has not come out yet."""

    def __init__(self) -> None:
        self._held: deque[tuple[int, TokenLogprob]] = deque()

    def hold(self, start: int, logprob: TokenLogprob) -> None:
        """`start`: where in the text the token's own begins."""
        self._held.append((start, logprob))

    def release(self, end: int) -> tuple[TokenLogprob, ...]:
        """Those of tokens whose text begins before `end`, which is how much has come out."""
        out = []
        while self._held and self._held[0][0] < end:
            out.append(self._held.popleft()[1])
        return tuple(out)


class Writer:
    """Makes an output of each token; `output.finish_reason` says that it was the last. Usage is not its business."""

    def __init__(
        self,
        *,
        request_id: str,
        choice: int,
        sampling: SamplingParams,
        max_tokens: int,
        eos_ids: frozenset[int],
        text: TextStream,
        describe: Describe,
        tools: ToolParser | None = None,
        gathers: bool = False,
    ) -> None:
        """gathers: many tokens make one output."""
        self._request_id = request_id
        self._choice = choice
        self._max_tokens = max_tokens
        self._min_tokens = sampling.min_tokens
        self._eos_ids = frozenset() if sampling.ignore_eos else eos_ids
        self._text = text
        self._describe = describe
        self._tools = tools
        self._logprobs = HeldLogprobs() if sampling.logprobs is not None else None
        self._opening: tuple[str, tuple[TokenLogprob, ...]] = ("", ())
        self._gathered: list[GenerationOutput] | None = [] if gathers else None
        self.tokens = 0

    def open_with(self, text: str, logprobs: tuple[TokenLogprob, ...]) -> None:
        """What the first output begins with: the prompt, if it is to be echoed."""
        self._opening = text, logprobs

    def write(self, sampled: Sampled) -> GenerationOutput | None:
        """Takes the next token. None: its output comes with a later one's."""
        output = self._write(sampled)
        if self._gathered is None:
            return output
        self._gathered.append(output)
        if output.finish_reason is None and len(self._gathered) < GATHERED:
            return None
        gathered, self._gathered = self._gathered, []
        return _joined(gathered)

    def _write(self, sampled: Sampled) -> GenerationOutput:
        if self._logprobs is not None and sampled.token not in self._eos_ids:
            described = self._describe(sampled.token, sampled.logprob, sampled.top)
            self._logprobs.hold(self._text.length, described)
        text, finish_reason = self._take(sampled.token, complete=sampled.complete)
        calls: tuple[ToolCallDelta, ...] = ()
        if self._tools is not None:
            text, calls, finish_reason = self._part(self._tools, text, finish_reason)
        logprobs = () if self._logprobs is None else self._logprobs.release(self._text.released)
        if self.tokens == 1:
            text, logprobs = self._opening[0] + text, self._opening[1] + logprobs
        return GenerationOutput(
            request_id=self._request_id,
            index=self.tokens - 1,
            text=text,
            choice=self._choice,
            logprobs=logprobs,
            tool_calls=calls,
            finish_reason=finish_reason,
        )

    def _part(
        self, tools: ToolParser, text: str, reason: FinishReason | None
    ) -> tuple[str, tuple[ToolCallDelta, ...], FinishReason | None]:
        """Parts what is called from what is said."""
        said, calls = tools.push(text)
        if reason is not None:
            said += tools.finish()
        if reason is FinishReason.STOP and tools.called:
            reason = FinishReason.TOOL_CALLS
        return said, calls, reason

    def _take(self, token: int, *, complete: bool) -> tuple[str, FinishReason | None]:
        self.tokens += 1
        if token in self._eos_ids and self.tokens > self._min_tokens:
            return self._text.flush(), FinishReason.STOP
        text = self._text.push(token)
        if self._text.stopped:
            return text, FinishReason.STOP
        if complete:
            return text + self._text.flush(), FinishReason.STOP
        if self.tokens == self._max_tokens:
            return text + self._text.flush(), FinishReason.LENGTH
        return text, None

    def break_off(
        self, reason: FinishReason, error: str | None = None, error_code: str | None = None
    ) -> GenerationOutput:
        """The end that no token made: cancelled, or failed."""
        return GenerationOutput(
            request_id=self._request_id,
            index=self.tokens,
            text="",
            choice=self._choice,
            finish_reason=reason,
            error=error,
            error_code=error_code,
        )


def _joined(outputs: list[GenerationOutput]) -> GenerationOutput:
    return msgspec.structs.replace(
        outputs[-1],
        index=outputs[0].index,
        tokens=len(outputs),
        text="".join(output.text for output in outputs),
        logprobs=tuple(chain.from_iterable(output.logprobs for output in outputs)),
        tool_calls=tuple(chain.from_iterable(output.tool_calls for output in outputs)),
    )
