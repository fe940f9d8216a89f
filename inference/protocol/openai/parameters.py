"""Parameters that OpenAI's chat and completions share, and the rejection of parameters that are not supported."""

from collections.abc import Mapping
from typing import Annotated, Any

from msgspec import Meta, Struct

from inference.engine import InvalidRequest, SamplingParams
from inference.protocol.parameters import (
    ChoiceCount,
    MaxTokens,
    Priority,
    RepeatPenalty,
    Seed,
    StopSequence,
    StopSequences,
    StreamFlag,
    Temperature,
    Timeout,
    TopK,
    TopP,
)
from inference.protocol.sampling import ExtraSamplingParameters

# Fields whose effect this server does not support, with the neutral values that it accepts beside null.
UnsupportedFields = Mapping[str, tuple[object, ...]]


class StreamOptions(Struct):
    """Options of a stream."""

    include_usage: (
        Annotated[bool, Meta(description="Whether a last chunk without choices has the token usage.", examples=[True])]
        | None
    ) = None
    include_obfuscation: (
        Annotated[bool, Meta(description="Not supported: must be false or absent.", examples=[False])] | None
    ) = None


class OpenAISamplingParameters(ExtraSamplingParameters, kw_only=True):
    """Parameters with OpenAI's defaults, which null means, too.

    `top_k`, `repeat_penalty`, `timeout` and `priority` extend OpenAI's API.
    """

    max_tokens: MaxTokens | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    repeat_penalty: RepeatPenalty | None = None
    stop: Annotated[
        StopSequence | StopSequences | None,
        Meta(
            description="A sequence, or up to 16 sequences, before which the generation ends. They are not part of the "
            "text.",
            examples=[["\n"]],
        ),
    ] = None
    seed: Seed | None = None
    n: ChoiceCount | None = None
    timeout: Timeout | None = None
    priority: Priority | None = None
    stream: StreamFlag | None = None
    stream_options: Annotated[
        StreamOptions | None, Meta(description="Options of the stream; only with `stream: true`.")
    ] = None

    @property
    def include_usage(self) -> bool:
        return self.stream_options is not None and self.stream_options.include_usage is True

    def sampling(self, *, max_tokens: int | None, logprobs: int | None) -> SamplingParams:
        """Return the engine's sampling parameters."""
        return SamplingParams(
            max_tokens=max_tokens,
            temperature=1.0 if self.temperature is None else self.temperature,
            top_p=1.0 if self.top_p is None else self.top_p,
            top_k=0 if self.top_k is None else self.top_k,
            repeat_penalty=1.0 if self.repeat_penalty is None else self.repeat_penalty,
            seed=self.seed,
            stop=(self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ()),
            logprobs=logprobs,
            **self.extra_sampling(),
        )

    def check_stream_options(self) -> None:
        """Raise InvalidRequest for options without a stream, and for options that are not supported."""
        if self.stream_options is None:
            return
        if not self.stream:
            raise InvalidRequest("`stream_options` needs `stream`: set it to true.", field="stream_options")
        if self.stream_options.include_obfuscation:
            field = "stream_options.include_obfuscation"
            raise InvalidRequest(f"`{field}` is not supported. Leave it out.", field=field)


def reject_unsupported_fields(value: Mapping[str, Any], unsupported: UnsupportedFields) -> None:
    """Raise InvalidRequest, which names the field, for a field that is not supported.

    Chat templates are never accepted: they belong to models, not to clients.
    """
    for field, content in value.items():
        if field.startswith("chat_template") or field in unsupported:
            if content is None or any(_is_same(content, neutral) for neutral in unsupported.get(field, ())):
                continue
            raise InvalidRequest(f"`{field[:100]}` is not supported. Leave it out.", field=field[:100])


def _is_same(value: object, other: object) -> bool:
    """Return whether both are equal, where true is not 1."""
    return value == other and isinstance(value, bool) == isinstance(other, bool)
