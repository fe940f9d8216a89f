"""What a remote model is asked, in OpenAI's form. What its server cannot carry is refused by name, never dropped."""

import json
from typing import Any

import msgspec

from inference.engine import GenerationRequest, InvalidRequest, Message, OutputForm, SamplingParams, Tool
from inference.remote.configuration import RemoteModel
from inference.remote.dialects import Dialect, dialect_of


class Asked(msgspec.Struct, frozen=True):
    """A request to another server: where, what, and whether it answers as a stream."""

    url: str
    body: dict[str, Any]
    streams: bool


def generation(model: RemoteModel, request: GenerationRequest) -> Asked:
    """InvalidRequest names the parameter that this model's server cannot follow."""
    dialect = dialect_of(model)
    body: dict[str, Any] = {"model": model.name} | _sampling(model, dialect, request)
    if request.messages is not None:
        body |= {"messages": [_message(message) for message in request.messages]} | _tools(request)
        asks = bool(request.tools) and request.tool_choice != "auto"
        _refuse(model, "tool_choice", asks and "tool_choice" in dialect.not_followed, 'set it to "auto"')
        return _streamed(model, "chat/completions", body, streams=model.stream_usage)
    _refuse(model, "echo", request.echo)
    _refuse(model, "logprobs", request.sampling.logprobs is not None, "with a raw prompt")
    body["prompt"] = request.prompt if request.prompt is not None else list(request.prompt_ids or ())
    return _streamed(model, "completions", body, streams=model.stream_usage)


def embeddings(model: RemoteModel, texts: tuple[str | tuple[int, ...], ...]) -> Asked:
    body = {"model": model.name, "input": list(texts), "encoding_format": "float"}
    return Asked(model.url("embeddings"), body, streams=False)


def _streamed(model: RemoteModel, path: str, body: dict[str, Any], *, streams: bool) -> Asked:
    if streams:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    return Asked(model.url(path), body, streams)


def _sampling(model: RemoteModel, dialect: Dialect, request: GenerationRequest) -> dict[str, Any]:
    params = request.sampling
    body: dict[str, Any] = {"temperature": params.temperature, "top_p": params.top_p}
    given = {
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
    body |= {name: value for name, value in given.items() if value is not None}
    _refuse(model, "n", request.n > 1 and not dialect.several)
    for name in ("presence_penalty", "frequency_penalty", "logprobs", "stop"):
        _refuse(model, name, name in body and name in dialect.not_followed)
    return body | _extras(model, dialect, request) | _form(model, dialect, request)


def _extras(model: RemoteModel, dialect: Dialect, request: GenerationRequest) -> dict[str, Any]:
    """Parameters beyond OpenAI's: said where the server knows them, refused where it does not and somebody asked."""
    params, neutral = request.sampling, SamplingParams()
    body = {}
    for name in ("top_k", "min_p", "repeat_penalty", "min_tokens", "ignore_eos"):
        value = getattr(params, name)
        asks = value != getattr(neutral, name) and name not in request.assumed
        if name in dialect.extras:
            body[dialect.extras[name]] = value
        else:
            _refuse(model, name, asks, f"set it to {json.dumps(getattr(neutral, name))}")
    if "top_k" in dialect.extras and params.top_k == 0:
        body["top_k"] = dialect.top_k_off
    if request.priority and "priority" in dialect.extras:
        body["priority"] = request.priority
    _refuse(model, "priority", request.priority != 0 and "priority" not in dialect.extras, "set it to 0")
    return body


def _form(model: RemoteModel, dialect: Dialect, request: GenerationRequest) -> dict[str, Any]:
    constraint = request.sampling.constraint
    if constraint is None:
        return {}
    _refuse(model, "response_format", "response_format" in dialect.not_followed)
    if constraint.form in (OutputForm.REGEX, OutputForm.GRAMMAR):
        _refuse(model, constraint.form, constraint.form not in dialect.extras)
        return {dialect.extras[constraint.form]: constraint.definition}
    _refuse(model, "response_format", request.messages is None and not dialect.raw_forms, "with a raw prompt")
    if constraint.form is OutputForm.JSON_OBJECT:
        return {"response_format": {"type": "json_object"}}
    schema = {"name": "answer", "strict": True, "schema": json.loads(constraint.definition)}
    return {"response_format": {"type": "json_schema", "json_schema": schema}}


def _refuse(model: RemoteModel, parameter: str, wrong: bool, advice: str = "leave it out") -> None:
    if wrong:
        raise InvalidRequest(
            f"{parameter} cannot be followed by {model.id}, which another server runs ({advice}).", field=parameter
        )


def _message(message: Message) -> dict[str, Any]:
    plain: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        plain["content"] = message.content or None
        plain["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        plain["tool_call_id"] = message.tool_call_id
    return plain


def _tools(request: GenerationRequest) -> dict[str, Any]:
    if not request.tools:
        return {}
    choice: str | dict[str, Any] = request.tool_choice
    if request.tool_choice not in ("none", "auto", "required"):
        choice = {"type": "function", "function": {"name": request.tool_choice}}
    return {"tools": [_tool(tool) for tool in request.tools], "tool_choice": choice}


def _tool(tool: Tool) -> dict[str, Any]:
    function: dict[str, Any] = {"name": tool.name, "description": tool.description}
    if tool.parameters is not None:
        function["parameters"] = tool.parameters
    return {"type": "function", "function": function}
