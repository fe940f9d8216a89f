"""Parameters that OpenAI's chat and completions share, and the rejection of parameters that are not supported."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from inference.engine import InvalidRequest, SamplingParams
from inference.protocol.openai.compatible_fields import CompatibleParameters
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
from inference.protocol.parsing import UnsupportedFields, drop_neutral_fields, is_same

# Fields of vLLM and llama.cpp that would change the output.
_UNSUPPORTED_EVERYWHERE: UnsupportedFields = {
    "add_generation_prompt": (True,),
    "add_special_tokens": (),
    "allowed_token_ids": ([],),
    "bad_words": ([],),
    "best_of": (1,),
    "continue_final_message": (False,),
    "documents": ([],),
    "dry_multiplier": (0,),
    "dynatemp_range": (0,),
    "guided_whitespace_pattern": (),
    "include_stop_str_in_output": (False,),
    "length_penalty": (1,),
    "logits_processors": ([],),
    "mirostat": (0,),
    "mm_processor_kwargs": ({},),
    "n_probs": (0,),
    "prompt_logprobs": (),
    "return_tokens_as_token_ids": (False,),
    "service_tier": ("auto",),
    "skip_special_tokens": (True,),
    "spaces_between_special_tokens": (True,),
    "store": (False,),
    "truncate_prompt_tokens": (),
    "typical_p": (1,),
    "use_beam_search": (False,),
    "xtc_probability": (0,),
}

ReasoningEffort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


class StreamOptions(Struct):
    """Options of a stream."""

    include_usage: (
        Annotated[bool, Meta(description="Whether a last chunk without choices has the token usage.", examples=[True])]
        | None
    ) = None
    include_obfuscation: (
        Annotated[bool, Meta(description="Not supported: must be false or absent.", examples=[False])] | None
    ) = None


class OpenAISamplingParameters(CompatibleParameters, kw_only=True):
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
        """Return the engine's sampling parameters. Raise InvalidRequest for parameters that contradict each other."""
        repeat_penalty = self.compatible_repeat_penalty(self.repeat_penalty)
        return SamplingParams(
            max_tokens=max_tokens,
            temperature=1.0 if self.temperature is None else self.temperature,
            top_p=1.0 if self.top_p is None else self.top_p,
            top_k=0 if self.top_k is None else self.top_k,
            repeat_penalty=1.0 if repeat_penalty is None else repeat_penalty,
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


def template_fields(value: Mapping[str, Any]) -> UnsupportedFields:
    """Return the fields of a request that are about chat templates, as unsupported ones."""
    return {field: () for field in value if field.startswith("chat_template")}


def supported_fields(value: Mapping[str, Any], unsupported: UnsupportedFields) -> dict[str, Any]:
    """Return the fields without those that are not supported and have their neutral value.

    Raise InvalidRequest, which names the field, for another value. Chat templates are never accepted: they belong to
    models, not to clients.
    """
    templates = {field: () for field in template_fields(value) if field != "chat_template_kwargs"}
    supported = drop_neutral_fields(value, {**_UNSUPPORTED_EVERYWHERE, **unsupported, **templates})
    if is_same(supported.get("top_k"), -1):  # vLLM's value for off
        supported["top_k"] = 0
    return supported
