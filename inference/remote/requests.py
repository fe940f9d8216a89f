"""Requests to a remote server in OpenAI's form. Parameters that the server does not support are refused by name."""

import json
from typing import Any

import msgspec

from inference.engine import (
    SAMPLING_PARAMETERS,
    ConstraintKind,
    GenerationRequest,
    InvalidRequest,
    Message,
    SamplingParams,
    Tool,
)
from inference.remote.configuration import RemoteModel
from inference.remote.dialects import Dialect, dialect_of

# The sampling parameters of OpenAI's API, and `constraint`, which becomes `response_format`.
OPENAI_PARAMETERS = frozenset(
    {
        "max_tokens",
        "temperature",
        "top_p",
        "presence_penalty",
        "frequency_penalty",
        "logit_bias",
        "seed",
        "stop",
        "logprobs",
        "constraint",
    }
)
EXTRA_PARAMETERS = tuple(name for name in SAMPLING_PARAMETERS if name not in OPENAI_PARAMETERS)


class RemoteRequest(msgspec.Struct, frozen=True):
    """The URL and body of a request to a remote server. is_streamed: the response is a stream of events."""

    url: str
    body: dict[str, Any]
    is_streamed: bool


def build_generation_request(model: RemoteModel, request: GenerationRequest) -> RemoteRequest:
    """Return the chat completion or completion request. Raise InvalidRequest for an unsupported parameter."""
    dialect = dialect_of(model)
    body: dict[str, Any] = {"model": model.name} | _sampling_fields(model, dialect, request)
    if request.messages is not None:
        body |= {"messages": [_message(message) for message in request.messages]} | _tool_fields(request)
        body |= _template_fields(model, dialect, request)
        has_choice = bool(request.tools) and request.tool_choice != "auto"
        _refuse_if(has_choice and "tool_choice" in dialect.unsupported, model, "tool_choice", 'Set it to "auto".')
        return _generation_request(model, "chat/completions", body)
    _refuse_if(request.echo, model, "echo")
    _refuse_if(request.sampling.logprobs is not None, model, "logprobs", "It needs a chat.")
    body["prompt"] = request.prompt if request.prompt is not None else list(request.prompt_ids or ())
    return _generation_request(model, "completions", body)


def build_embedding_request(model: RemoteModel, texts: tuple[str | tuple[int, ...], ...]) -> RemoteRequest:
    body = {"model": model.name, "input": list(texts), "encoding_format": "float"}
    return RemoteRequest(model.url("embeddings"), body, is_streamed=False)


def _generation_request(model: RemoteModel, path: str, body: dict[str, Any]) -> RemoteRequest:
    if model.stream_usage:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return RemoteRequest(model.url(path), body, is_streamed=model.stream_usage)


def _sampling_fields(model: RemoteModel, dialect: Dialect, request: GenerationRequest) -> dict[str, Any]:
    params = request.sampling
    optional = {
        "max_tokens": params.max_tokens,
        "presence_penalty": params.presence_penalty or None,
        "frequency_penalty": params.frequency_penalty or None,
        "logit_bias": {str(token): bias for token, bias in params.logit_bias.items()} or None,
        "seed": params.seed,
        "stop": list(params.stop) or None,
        "n": request.n if request.n > 1 else None,
        "logprobs": True if params.logprobs is not None else None,
        "top_logprobs": params.logprobs or None,
    }
    fields: dict[str, Any] = {"temperature": params.temperature, "top_p": params.top_p}
    fields |= {name: value for name, value in optional.items() if value is not None}
    _refuse_if(request.n > 1 and not dialect.has_multiple_choices, model, "n")
    for name in ("presence_penalty", "frequency_penalty", "logprobs", "stop"):
        _refuse_if(name in fields and name in dialect.unsupported, model, name)
    return fields | _extra_fields(model, dialect, request) | _constraint_fields(model, dialect, request)


def _extra_fields(model: RemoteModel, dialect: Dialect, request: GenerationRequest) -> dict[str, Any]:
    """Return the parameters beyond OpenAI's that the server supports. Refuse the others if the client set them."""
    params, neutral = request.sampling, SamplingParams()
    fields = {}
    for name in EXTRA_PARAMETERS:
        value, neutral_value = getattr(params, name), getattr(neutral, name)
        if name in dialect.extra_names:
            fields[dialect.extra_names[name]] = value
        else:
            is_set = value != neutral_value and name not in request.default_parameters
            _refuse_if(is_set, model, name, f"Set it to {json.dumps(neutral_value)}.")
    if "top_k" in dialect.extra_names and params.top_k == 0:
        fields["top_k"] = dialect.top_k_off
    if request.priority and "priority" in dialect.extra_names:
        fields["priority"] = request.priority
    has_priority = request.priority != 0
    _refuse_if(has_priority and "priority" not in dialect.extra_names, model, "priority", "Set it to 0.")
    return fields


def _constraint_fields(model: RemoteModel, dialect: Dialect, request: GenerationRequest) -> dict[str, Any]:
    constraint = request.sampling.constraint
    if constraint is None:
        return {}
    _refuse_if("response_format" in dialect.unsupported, model, "response_format")
    if constraint.kind in (ConstraintKind.REGEX, ConstraintKind.GRAMMAR):
        _refuse_if(constraint.kind not in dialect.extra_names, model, constraint.kind)
        return {dialect.extra_names[constraint.kind]: constraint.definition}
    is_prompt = request.messages is None
    _refuse_if(is_prompt and not dialect.has_prompt_constraints, model, "response_format", "It needs a chat.")
    if constraint.kind is ConstraintKind.JSON_OBJECT:
        return {"response_format": {"type": "json_object"}}
    schema = {"name": "answer", "strict": True, "schema": json.loads(constraint.definition)}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def _template_fields(model: RemoteModel, dialect: Dialect, request: GenerationRequest) -> dict[str, Any]:
    options = dict(request.template_options)
    if dialect.has_template_options:
        if request.thinking is not None:
            options = {"enable_thinking": request.thinking, "thinking": request.thinking} | options
        return {"chat_template_kwargs": options} if options else {}
    effort = options.pop("reasoning_effort", None)
    _refuse_if(bool(options), model, "chat_template_kwargs")
    return {} if effort is None else {"reasoning_effort": effort}


def _refuse_if(condition: bool, model: RemoteModel, parameter: str, hint: str = "Leave it out.") -> None:
    if condition:
        message = f"`{parameter}` is not supported by {model.id}, which runs on another server. {hint}"
        raise InvalidRequest(message, field=parameter)


def _message(message: Message) -> dict[str, Any]:
    fields: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        fields["content"] = message.content or None
        fields["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        fields["tool_call_id"] = message.tool_call_id
    return fields


def _tool_fields(request: GenerationRequest) -> dict[str, Any]:
    if not request.tools:
        return {}
    choice: str | dict[str, Any] = request.tool_choice
    if request.tool_choice not in ("none", "auto", "required"):
        choice = {"type": "function", "function": {"name": request.tool_choice}}
    fields = {"tools": [_tool(tool) for tool in request.tools], "tool_choice": choice}
    return fields if request.parallel_tool_calls else fields | {"parallel_tool_calls": False}


def _tool(tool: Tool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "description": tool.description}
    if tool.parameters is not None:
        function["parameters"] = tool.parameters
    return {"type": "function", "function": function}
