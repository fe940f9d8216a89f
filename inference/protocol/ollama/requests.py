"""Requests of Ollama's chat, generate, show and embed."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from inference.engine import GenerationRequest, InvalidRequest, Message, ToolCall
from inference.protocol.messages import FunctionName
from inference.protocol.native.embeddings import MAX_TEXTS
from inference.protocol.ollama.options import (
    OllamaGenerationRequest,
    OllamaModelName,
    OllamaRequest,
    drop_neutral_options,
)
from inference.protocol.openai.embeddings import Dimensions
from inference.protocol.parsing import parse_struct
from inference.protocol.tools import ChatTool

_UNSUPPORTED_IN_GENERATE: Mapping[str, tuple[object, ...]] = {
    "context": ([],),
    "images": ([],),
    "suffix": ("",),
    "template": ("",),
    "width": (),
    "height": (),
    "steps": (),
}


class OllamaFunctionCall(Struct):
    """A function's name with its arguments."""

    name: FunctionName
    arguments: Annotated[
        dict[str, Any], Meta(description="Arguments of the call.", examples=[{"product": "lamp", "amount": 2}])
    ]


class OllamaToolCall(Struct):
    """A call that the model requests."""

    function: Annotated[OllamaFunctionCall, Meta(description="Function to call.")]


class OllamaMessage(Struct):
    """One message of a chat. A `tool` message answers the earliest call without an answer."""

    role: Annotated[Literal["system", "user", "assistant", "tool"], Meta(description="Author of the message.")]
    content: Annotated[str | None, Meta(description="Text of the message.", examples=["Describe a lamp."])] = None
    tool_calls: Annotated[
        list[OllamaToolCall] | None, Meta(description="Calls that this message of the assistant requested.")
    ] = None
    tool_name: Annotated[str | None, Meta(description="Name of the called tool.", examples=["order"])] = None
    thinking: Annotated[
        str | None, Meta(description="Reasoning, which the model does not read again.", examples=[""])
    ] = None
    images: Annotated[list[str] | None, Meta(description="Refused: the models read text.")] = None

    def __post_init__(self) -> None:
        if self.images:
            raise ValueError("This model reads text only: leave out `images`")


class OllamaChatRequest(OllamaGenerationRequest, kw_only=True, forbid_unknown_fields=True):
    """A chat. It streams unless `stream` is false."""

    messages: Annotated[
        list[OllamaMessage],
        Meta(description="Messages of the chat, the oldest first. Without any, the model is only checked."),
    ] = []
    tools: Annotated[
        Annotated[list[ChatTool], Meta(max_length=128)] | None,
        Meta(description="Functions that the model may call, at most 128."),
    ] = None

    @property
    def generates(self) -> bool:
        """Return whether the request is more than a check of the model."""
        return bool(self.messages)

    def generation_request(self, request_id: str) -> GenerationRequest:
        """Return the engine's request."""
        return GenerationRequest(
            request_id=request_id,
            messages=tuple(_engine_messages(self.messages)),
            sampling=self.sampling(),
            **self.reasoning(),
            tools=tuple(tool.to_engine() for tool in self.tools or ()),
        )


class OllamaGenerateRequest(OllamaGenerationRequest, kw_only=True, forbid_unknown_fields=True):
    """A prompt. It streams unless `stream` is false."""

    prompt: Annotated[
        str | None,
        Meta(description="Prompt. Without one, the model is only checked.", examples=["Describe a lamp."]),
    ] = None
    system: Annotated[
        str | None, Meta(description="System message before the prompt.", examples=["You write for a shop."])
    ] = None
    raw: Annotated[
        bool, Meta(description="Whether to continue the prompt as it is, without the chat template.", examples=[True])
    ] = False

    @property
    def generates(self) -> bool:
        """Return whether the request is more than a check of the model."""
        return bool(self.prompt)

    def generation_request(self, request_id: str) -> GenerationRequest:
        """Return the engine's request. Raise InvalidRequest for a system message with `raw`."""
        if self.raw:
            if self.system:
                raise InvalidRequest("`system` cannot be used with `raw`: write it into the prompt.", field="system")
            return GenerationRequest(request_id=request_id, prompt=self.prompt, sampling=self.sampling())
        system = [Message("system", self.system)] if self.system else []
        messages = (*system, Message("user", self.prompt or ""))
        return GenerationRequest(request_id=request_id, messages=messages, sampling=self.sampling(), **self.reasoning())


class OllamaShowRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """A model to describe."""

    model: OllamaModelName
    verbose: Annotated[bool, Meta(description="Accepted without effect.", examples=[False])] | None = None

    @property
    def ignored_fields(self) -> tuple[str, ...]:
        """Return the names of the fields without effect that the request has."""
        return () if self.verbose is None else ("verbose",)


class OllamaEmbedRequest(OllamaRequest, kw_only=True, forbid_unknown_fields=True):
    """Texts to embed."""

    input: Annotated[
        str | Annotated[list[str], Meta(max_length=MAX_TEXTS)],
        Meta(description=f"A text, or up to {MAX_TEXTS} texts.", examples=[["a brass lamp", "a quiet kettle"]]),
    ]
    truncate: Annotated[
        bool,
        Meta(description="Whether to cut a text to the model's context; otherwise it is an error.", examples=[True]),
    ] = True
    dimensions: Dimensions | None = None

    def texts(self) -> tuple[str, ...]:
        return (self.input,) if isinstance(self.input, str) else tuple(self.input)


def parse_chat_request(value: Mapping[str, Any]) -> OllamaChatRequest:
    """Return the request. Raise InvalidRequest, which names the field that is not valid or not supported."""
    return parse_struct(drop_neutral_options(value, {}), OllamaChatRequest)


def parse_generate_request(value: Mapping[str, Any]) -> OllamaGenerateRequest:
    """Return the request. Raise InvalidRequest, which names the field that is not valid or not supported."""
    return parse_struct(drop_neutral_options(value, _UNSUPPORTED_IN_GENERATE), OllamaGenerateRequest)


def parse_embed_request(value: Mapping[str, Any]) -> OllamaEmbedRequest:
    """Return the request. Raise InvalidRequest, which names the field that is not valid or not supported."""
    return parse_struct(drop_neutral_options(value, {}), OllamaEmbedRequest)


def _engine_messages(messages: Sequence[OllamaMessage]) -> Iterator[Message]:
    """Yield the engine's messages. Ollama's calls have no ids, so calls and answers are numbered in order."""
    call_count = answer_count = 0
    for position, message in enumerate(messages):
        calls = []
        for call in message.tool_calls or ():
            call_count += 1
            arguments = json.dumps(call.function.arguments)
            calls.append(ToolCall(f"call_{call_count:05}", call.function.name, arguments))
        if calls and message.role != "assistant":
            field = f"messages[{position}].tool_calls"
            raise InvalidRequest(f"`{field}` is allowed in a message of the assistant only.", field=field)
        tool_call_id = None
        if message.role == "tool":
            answer_count += 1
            tool_call_id = f"call_{answer_count:05}"
        yield Message(message.role, message.content or "", tuple(calls), tool_call_id)
