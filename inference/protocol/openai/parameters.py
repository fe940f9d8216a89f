"""The parameters that OpenAI's chat and its older completions share, and those of OpenAI's that we cannot follow."""

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from inference.engine import InvalidRequest, SamplingParams
from inference.protocol.parameters import (
    ChoiceCount,
    MaxTokens,
    Priority,
    RepeatPenalty,
    Seed,
    StopSequence,
    StopSequences,
    Temperature,
    Timeout,
    TopK,
    TopP,
)
from inference.protocol.sampling import ExtraSamplingParameters

# Fields that change what is done and that this server cannot follow, with the values that ask for nothing. `null` is
# always one of them.
UnsupportedFields = Mapping[str, tuple[object, ...]]


class StreamOptions(Struct):
    """What a stream carries beside the text."""

    include_usage: bool | None = None
    include_obfuscation: bool | None = None


class OpenAISamplingParameters(ExtraSamplingParameters, kw_only=True):
    """Absent and null are OpenAI's defaults. `top_k`, `repeat_penalty`, `timeout` and `priority` are ours."""

    max_tokens: MaxTokens | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    repeat_penalty: RepeatPenalty | None = None
    stop: StopSequence | StopSequences | None = None
    seed: Seed | None = None
    n: ChoiceCount | None = None
    timeout: Timeout | None = None
    priority: Priority | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None

    @property
    def include_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage is True

    def sampling(self, *, max_tokens: int | None, logprobs: int | None) -> SamplingParams:
        """What the engine is asked for."""
        return SamplingParams(
            max_tokens=max_tokens,
            temperature=1.0 if self.temperature is None else self.temperature,
            top_p=1.0 if self.top_p is None else self.top_p,
            top_k=0 if self.top_k is None else self.top_k,
            repeat_penalty=1.0 if self.repeat_penalty is None else self.repeat_penalty,
            seed=self.seed,
            stop=(self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ()),
            logprobs=logprobs,
            **self.further(),
        )

    def check_stream_options(self) -> None:
        """InvalidRequest for what is said of a stream that there is not, or that no stream here can do."""
        if self.stream_options is None:
            return
        if not self.stream:
            raise InvalidRequest("stream_options is for streams only: set stream to true.", field="stream_options")
        if self.stream_options.include_obfuscation:
            field = "stream_options.include_obfuscation"
            raise InvalidRequest(f"{field} is not supported by this server: leave it out.", field=field)


def reject_unsupported_fields(value: Mapping[str, Any], unsupported: UnsupportedFields) -> None:
    """InvalidRequest names the field that is not supported. Chat templates belong to models, not to clients."""
    for field, given in value.items():
        if field.startswith("chat_template") or field in unsupported:
            if given is None or any(_same(given, neutral) for neutral in unsupported.get(field, ())):
                continue
            raise InvalidRequest(f"{field[:100]} is not supported by this server: leave it out.", field=field[:100])


def _same(given: object, neutral: object) -> bool:
    """Equal, where true is not 1."""
    return given == neutral and isinstance(given, bool) == isinstance(neutral, bool)
