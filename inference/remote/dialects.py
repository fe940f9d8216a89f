"""What servers understand beyond OpenAI's parameters, and what they call it."""

from dataclasses import dataclass, field

from inference.remote.configuration import DialectName, RemoteModel


@dataclass(frozen=True)
class Dialect:
    """extras: our name of a parameter to theirs. What is not here cannot be carried.

    top_k_off: how they write that top_k is off; left unsaid, their own default would count.
    several: whether they can write more than one choice. raw_forms: whether `response_format` goes with a raw prompt.
    not_followed: OpenAI's parameters that they take and drop, or follow in a way of their own.
    lists_served: whether their list of models is of those that they serve; else it says nothing of ours.
    """

    extras: dict[str, str] = field(default_factory=dict)
    top_k_off: int = 0
    several: bool = True
    raw_forms: bool = False
    not_followed: frozenset[str] = frozenset()
    lists_served: bool = True


_SAMPLERS = {"top_k": "top_k", "min_p": "min_p", "repeat_penalty": "repetition_penalty"}
_ENDS = {"min_tokens": "min_tokens", "ignore_eos": "ignore_eos"}

DIALECTS: dict[DialectName, Dialect] = {
    "openai": Dialect(),
    "vllm": Dialect(_SAMPLERS | _ENDS, top_k_off=-1, raw_forms=True),
    "sglang": Dialect(_SAMPLERS | _ENDS | {"regex": "regex"}, top_k_off=-1, raw_forms=True),
    "transformers": Dialect(
        several=False,
        not_followed=frozenset(
            {"response_format", "logprobs", "presence_penalty", "tool_choice"}
            | {"stop", "frequency_penalty"}  # the text keeps the stop; the penalty is one of repetition
        ),
        lists_served=False,
    ),
    "llama.cpp": Dialect(_SAMPLERS | {"repeat_penalty": "repeat_penalty"}, several=False),
    "stoa": Dialect(
        _SAMPLERS
        | _ENDS
        | {"repeat_penalty": "repeat_penalty", "regex": "regex", "grammar": "grammar"}
        | {"priority": "priority"},
        raw_forms=True,
    ),
}


def dialect_of(model: RemoteModel) -> Dialect:
    return DIALECTS[model.dialect]
