"""The parameters of a generation as the command line takes them: `-o key=value`, and flags for the most used ones."""

import json
from typing import Any

import msgspec

from inference.engine import GenerationRequest, InvalidRequest
from inference.generation.services import new_id
from inference.protocol import native, openai
from inference.protocol.parameters import parse

_NOT_PARAMETERS = {"model", "messages", "prompt", "stream", "stream_options", "tools", "tool_choice"}
NAMES = sorted({field.name for field in msgspec.structs.fields(openai.ChatBody)} - _NOT_PARAMETERS)

# What the native routes begin with; a chat on the command line is no other.
DEFAULTS: dict[str, Any] = {
    "temperature": 0.7,
    "top_p": 0.9,
    "top_k": native.TOP_K,
    "repeat_penalty": native.REPEAT_PENALTY,
}

Parameters = dict[str, Any]
Messages = list[dict[str, str]]


def read_option(text: str) -> Parameters:
    """`key=value`; the value is JSON, or else the text as it stands. InvalidRequest names the key that is wrong."""
    key, equals, value = text.partition("=")
    if not equals:
        raise InvalidRequest(f"{text} is wrong: write key=value, as in -o temperature=0.5.", field=key)
    return {check_name(key): read_value(value)}


def check_name(key: str) -> str:
    if key not in NAMES:
        raise InvalidRequest(f"{key} is no parameter. There are: {', '.join(NAMES)}.", field=key)
    return key


def read_value(value: str) -> Any:
    try:
        return json.loads(value)
    except ValueError:
        return value


def chat_request(model: str, parameters: Parameters, messages: Messages) -> GenerationRequest:
    """InvalidRequest names the parameter that is wrong."""
    body = openai.parse_chat(DEFAULTS | parameters | {"model": model, "messages": messages})
    request = body.generation_request(new_id("chatcmpl-"))
    return msgspec.structs.replace(request, assumed=tuple(sorted(DEFAULTS.keys() - parameters.keys())))


def raw_request(model: str, parameters: Parameters, prompt: str) -> GenerationRequest:
    """The prompt as it is, without the chat template."""
    body = parse(parameters | {"model": model, "prompt": prompt}, native.InferenceBody)
    return body.generation_request(new_id("inf_"))
