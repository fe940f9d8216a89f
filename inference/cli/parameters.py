"""Generation parameters on the command line: `-o KEY=VALUE`, and options for the most common ones."""

import json
from typing import Any

import msgspec

from inference.engine import GenerationRequest, InvalidRequest
from inference.generation.services import new_id
from inference.protocol.native.inference import DEFAULT_REPEAT_PENALTY, DEFAULT_TOP_K, InferenceRequest
from inference.protocol.openai.chat import ChatCompletionRequest, parse_chat_request
from inference.protocol.parsing import parse_struct

_OTHER_FIELDS = {"model", "messages", "prompt", "stream", "stream_options", "tools", "tool_choice"}
PARAMETER_NAMES = sorted({field.name for field in msgspec.structs.fields(ChatCompletionRequest)} - _OTHER_FIELDS)

_native_defaults = {field.name: field.default for field in msgspec.structs.fields(InferenceRequest)}
# Chats on the command line have the defaults of the native API.
DEFAULTS: dict[str, Any] = {
    "temperature": _native_defaults["temperature"],
    "top_p": _native_defaults["top_p"],
    "top_k": DEFAULT_TOP_K,
    "repeat_penalty": DEFAULT_REPEAT_PENALTY,
}

Parameters = dict[str, Any]
ChatMessages = list[dict[str, str]]


def parse_option(text: str) -> Parameters:
    """Return the parameter of a `KEY=VALUE` option. The value is JSON, or else plain text. Raise InvalidRequest."""
    key, equals, value = text.partition("=")
    if not equals:
        raise InvalidRequest(f"-o {text}: expected KEY=VALUE, as in -o temperature=0.5.", field=key)
    return {check_name(key): parse_value(value)}


def check_name(key: str) -> str:
    """Return the name of a parameter, or raise InvalidRequest if there is none of this name."""
    if key not in PARAMETER_NAMES:
        raise InvalidRequest(f"Unknown parameter {key}. Available: {', '.join(PARAMETER_NAMES)}.", field=key)
    return key


def parse_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def chat_request(model: str, parameters: Parameters, messages: ChatMessages) -> GenerationRequest:
    """Return a chat completion request, or raise InvalidRequest, which names the wrong parameter."""
    body = parse_chat_request(DEFAULTS | parameters | {"model": model, "messages": messages})
    request = body.generation_request(new_id("chatcmpl-"))
    return msgspec.structs.replace(request, default_parameters=tuple(sorted(DEFAULTS.keys() - parameters.keys())))


def raw_request(model: str, parameters: Parameters, prompt: str) -> GenerationRequest:
    """Return a request that continues the prompt without a chat template. Raise InvalidRequest."""
    body = parse_struct(parameters | {"model": model, "prompt": prompt}, InferenceRequest)
    return body.generation_request(new_id("inf_"))
