"""Sampling beyond the contract's own parameters and OpenAI's most used ones: the same fields on every surface."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from inference.engine import InvalidRequest
from inference.protocol.response_format import Grammar, Regex, ResponseFormat, output_constraint

MinP = Annotated[float, Meta(ge=0, le=1, description="Tokens at least this share as probable as the best; 0 is off.")]
Penalty = Annotated[float, Meta(ge=-2, le=2, description="As in OpenAI's API, over the output; 0 is off.")]
LogitBiasKey = Annotated[str, Meta(pattern="^[0-9]{1,9}$")]
LogitBiasValue = Annotated[float, Meta(ge=-100, le=100)]
LogitBias = Annotated[
    dict[LogitBiasKey, LogitBiasValue], Meta(max_length=1024, description="Added to the logits of token ids.")
]
MinTokens = Annotated[int, Meta(ge=0, le=2**31 - 1, description="No end before so many tokens.")]
TopLogprobs = Annotated[int, Meta(ge=0, le=20, description="So many best tokens beside each; needs logprobs.")]


class ExtraSamplingParameters(Struct, kw_only=True):
    """What steers the text. Absent and null are the same: not asked for."""

    min_p: MinP | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    logit_bias: LogitBias | None = None
    min_tokens: MinTokens | None = None
    ignore_eos: bool | None = None
    response_format: ResponseFormat | None = None
    regex: Regex | None = None
    grammar: Grammar | None = None

    def further(self) -> dict[str, Any]:
        """The engine's parameters of these. InvalidRequest when they contradict each other."""
        return {
            "min_p": self.min_p or 0.0,
            "presence_penalty": self.presence_penalty or 0.0,
            "frequency_penalty": self.frequency_penalty or 0.0,
            "logit_bias": {int(token): bias for token, bias in (self.logit_bias or {}).items()},
            "min_tokens": self.min_tokens or 0,
            "ignore_eos": self.ignore_eos is True,
            "constraint": output_constraint(self.response_format, self.regex, self.grammar),
        }


class SamplingParametersWithLogprobs(ExtraSamplingParameters, kw_only=True):
    """The same with log probabilities, as OpenAI's chat asks for them."""

    logprobs: bool | None = None
    top_logprobs: TopLogprobs | None = None

    def further(self) -> dict[str, Any]:
        return super().further() | {"logprobs": requested_logprobs(self.logprobs, self.top_logprobs)}


def requested_logprobs(logprobs: bool | None, top_logprobs: int | None) -> int | None:
    """How many of the best tokens the engine tells beside each; None: it tells no log probabilities at all."""
    if top_logprobs and not logprobs:
        raise InvalidRequest("top_logprobs needs logprobs: set it to true.", field="top_logprobs")
    return (top_logprobs or 0) if logprobs else None
