"""Sampling parameters that all surfaces have in the same form."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from inference.engine import InvalidRequest, OutputConstraint
from inference.protocol.parameters import (
    FrequencyPenalty,
    IgnoreEos,
    LogitBias,
    LogprobsFlag,
    MinP,
    MinTokens,
    PresencePenalty,
    StopTokenIds,
    TopLogprobs,
)
from inference.protocol.response_format import Grammar, Regex, ResponseFormat, only_constraint, output_constraints


class ExtraSamplingParameters(Struct, kw_only=True):
    """Sampling parameters beyond OpenAI's most used ones. An absent field and null both mean the neutral default."""

    min_p: MinP | None = None
    presence_penalty: PresencePenalty | None = None
    frequency_penalty: FrequencyPenalty | None = None
    logit_bias: LogitBias | None = None
    min_tokens: MinTokens | None = None
    stop_token_ids: StopTokenIds | None = None
    ignore_eos: IgnoreEos | None = None
    response_format: Annotated[
        ResponseFormat | None,
        Meta(description="Form of the text: any text, a JSON object, or JSON that matches a schema."),
    ] = None
    regex: Regex | None = None
    grammar: Grammar | None = None

    def extra_sampling(self) -> dict[str, Any]:
        """Return these as the engine's parameters. Raise InvalidRequest if they contradict each other."""
        return {
            "min_p": self.min_p or 0.0,
            "presence_penalty": self.presence_penalty or 0.0,
            "frequency_penalty": self.frequency_penalty or 0.0,
            "logit_bias": {int(token): bias for token, bias in (self.logit_bias or {}).items()},
            "min_tokens": self.min_tokens or 0,
            "stop_token_ids": tuple(self.stop_token_ids or ()),
            "ignore_eos": self.ignore_eos is True,
            "constraint": only_constraint(self.constraints()),
        }

    def constraints(self) -> dict[str, OutputConstraint | None]:
        """Return the constraints of the text by the names of their fields."""
        return output_constraints(self.response_format, self.regex, self.grammar)


class SamplingParametersWithLogprobs(ExtraSamplingParameters, kw_only=True):
    """Extra sampling parameters and log probabilities in the form of OpenAI's chat."""

    logprobs: LogprobsFlag | None = None
    top_logprobs: TopLogprobs | None = None

    def extra_sampling(self) -> dict[str, Any]:
        return super().extra_sampling() | {"logprobs": requested_logprobs(self.logprobs, self.top_logprobs)}


def requested_logprobs(logprobs: bool | None, top_logprobs: int | None) -> int | None:
    """Return the engine's `logprobs`: the number of most probable tokens, or None for no log probabilities."""
    if top_logprobs and not logprobs:
        raise InvalidRequest("`top_logprobs` needs `logprobs`: set it to true.", field="top_logprobs")
    return (top_logprobs or 0) if logprobs else None
