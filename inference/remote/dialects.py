"""The dialects of OpenAI-compatible servers: parameters beyond OpenAI's, their names, and what is not supported."""

from dataclasses import dataclass, field

from inference.remote.configuration import DialectName, RemoteModel


@dataclass(frozen=True)
class Dialect:
    """The differences of a kind of server from OpenAI's API.

    extra_names: the server's names of supported parameters beyond OpenAI's, by our names.
    top_k_off: the value that turns top_k off. Without one, the server would apply its own default.
    has_multiple_choices: it supports `n` above 1. has_prompt_constraints: `response_format` also without a chat.
    has_template_options: it supports `chat_template_kwargs`.
    unsupported: OpenAI's parameters that it ignores, or interprets differently.
    lists_served_models: its list of models has those that it serves; otherwise the list tells nothing about ours.
    """

    extra_names: dict[str, str] = field(default_factory=dict)
    top_k_off: int = 0
    has_multiple_choices: bool = True
    has_prompt_constraints: bool = False
    has_template_options: bool = False
    unsupported: frozenset[str] = frozenset()
    lists_served_models: bool = True


_SAMPLERS = {"top_k": "top_k", "min_p": "min_p", "repeat_penalty": "repetition_penalty"}
_STOP_CONDITIONS = {"min_tokens": "min_tokens", "ignore_eos": "ignore_eos", "stop_token_ids": "stop_token_ids"}

DIALECTS: dict[DialectName, Dialect] = {
    "openai": Dialect(),
    "vllm": Dialect(_SAMPLERS | _STOP_CONDITIONS, top_k_off=-1, has_prompt_constraints=True, has_template_options=True),
    "sglang": Dialect(
        _SAMPLERS | _STOP_CONDITIONS | {"regex": "regex"},
        top_k_off=-1,
        has_prompt_constraints=True,
        has_template_options=True,
    ),
    "transformers": Dialect(
        has_multiple_choices=False,
        unsupported=frozenset(
            {"response_format", "logprobs", "presence_penalty", "tool_choice"}
            | {"stop", "frequency_penalty"}  # its text includes the stop sequence; its penalty is on repetition
        ),
        lists_served_models=False,
    ),
    "llama.cpp": Dialect(
        _SAMPLERS | {"repeat_penalty": "repeat_penalty"}, has_multiple_choices=False, has_template_options=True
    ),
    "stoa": Dialect(
        _SAMPLERS
        | _STOP_CONDITIONS
        | {"repeat_penalty": "repeat_penalty", "regex": "regex", "grammar": "grammar"}
        | {"priority": "priority"},
        has_prompt_constraints=True,
        has_template_options=True,
    ),
}


def dialect_of(model: RemoteModel) -> Dialect:
    return DIALECTS[model.dialect]
