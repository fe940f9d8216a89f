"""Requests of Anthropic's messages. Unknown fields are refused by name."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from inference.engine import (
    ConstraintKind,
    GenerationRequest,
    InvalidRequest,
    OutputConstraint,
    SamplingParams,
    TokenizationRequest,
    Tool,
)
from inference.protocol.anthropic.content import (
    AnthropicMessage,
    CacheControl,
    TextBlock,
    engine_messages,
    system_text,
)
from inference.protocol.fields import ModelId
from inference.protocol.messages import FunctionName
from inference.protocol.parameters import MaxTokens, StopSequences, StreamFlag, Temperature, TopK, TopP
from inference.protocol.parsing import UnsupportedFields, drop_neutral_fields, parse_struct

MAX_TOOLS = 128

# Fields with effects that this server does not have, with their neutral values.
_UNSUPPORTED: UnsupportedFields = {
    "container": (),
    "context_management": ({}, {"edits": []}),
    "inference_geo": (),
    "mcp_servers": ([],),
    "speed": ("standard",),
}


class ToolDefinition(Struct):
    """A tool that the model may call."""

    name: FunctionName
    input_schema: Annotated[dict[str, Any], Meta(description="JSON schema of the arguments, which calls always match.")]
    description: Annotated[
        str, Meta(description="What the tool does, for the model.", examples=["Places an order."])
    ] = ""
    type: (
        Annotated[Literal["custom"], Meta(description="Kind of the tool: Anthropic's own tools are refused.")] | None
    ) = None
    strict: Annotated[bool, Meta(description="No effect: calls always match.", examples=[True])] | None = None
    cache_control: CacheControl = None

    def to_engine(self) -> Tool:
        return Tool(self.name, self.description, self.input_schema)


class AnthropicToolChoice(Struct):
    """Whether the model calls tools."""

    type: Annotated[
        Literal["auto", "any", "tool", "none"],
        Meta(description="`auto`: it may, `any`: it does, `tool`: it calls the named one, `none`: it does not."),
    ]
    name: Annotated[str, Meta(description="Name of the tool, with the type `tool`.", examples=["order"])] | None = None
    disable_parallel_tool_use: Annotated[
        bool, Meta(description="Whether a message has at most one call.", examples=[True])
    ] = False

    def to_engine(self) -> str:
        """Return the engine's tool choice. Raise InvalidRequest for a `tool` without a name."""
        if self.type == "tool":
            if self.name is None:
                raise InvalidRequest("`tool_choice.name` is required with the type tool.", field="tool_choice.name")
            return self.name
        return "required" if self.type == "any" else self.type


class JsonSchemaFormat(Struct):
    """A JSON schema that the text matches."""

    type: Annotated[Literal["json_schema"], Meta(description="Kind of the format.")]
    schema: Annotated[dict[str, Any], Meta(description="JSON schema that the text matches.")]


class OutputConfig(Struct, forbid_unknown_fields=True):
    """Configuration of the output."""

    format: Annotated[JsonSchemaFormat | None, Meta(description="Form of the text.")] = None


class ThinkingConfig(Struct):
    """Whether the model reasons first."""

    type: Annotated[
        Literal["enabled", "disabled", "adaptive"],
        Meta(description="`adaptive` leaves it to the model. Models without reasoning write none."),
    ]
    budget_tokens: (
        Annotated[
            int, Meta(ge=1, le=2**31 - 1, description="No effect: `max_tokens` limits reasoning too.", examples=[1024])
        ]
        | None
    ) = None
    display: Annotated[
        Literal["summarized", "omitted"] | None,
        Meta(description="`omitted` leaves the reasoning out of the response."),
    ] = None


class Metadata(Struct):
    """Data about the request."""

    user_id: Annotated[str, Meta(description="Accepted without effect.", examples=["u-17"])] | None = None


class _Conversation(Struct, kw_only=True, forbid_unknown_fields=True):
    """The fields of a message and of a token count."""

    model: ModelId
    messages: Annotated[
        list[AnthropicMessage], Meta(min_length=1, description="Turns of the conversation, the oldest first.")
    ]
    system: Annotated[
        str | list[TextBlock] | None,
        Meta(description="System prompt, as text or blocks of text.", examples=["You write product descriptions."]),
    ] = None
    tools: Annotated[
        Annotated[list[ToolDefinition], Meta(max_length=MAX_TOOLS)] | None,
        Meta(description=f"Tools that the model may call, at most {MAX_TOOLS}."),
    ] = None
    tool_choice: Annotated[AnthropicToolChoice | None, Meta(description="Whether the model calls tools.")] = None
    thinking: Annotated[ThinkingConfig | None, Meta(description="Whether the model reasons first.")] = None
    output_config: Annotated[OutputConfig | None, Meta(description="Configuration of the output.")] = None
    cache_control: CacheControl = None

    def tokenization_request(self) -> TokenizationRequest:
        """Return the engine's request to count the prompt's tokens."""
        return TokenizationRequest(
            messages=self._engine_messages(), tools=self._engine_tools(), thinking=self._engine_thinking()
        )

    @property
    def shows_thinking(self) -> bool:
        """Return whether reasoning is part of the response."""
        return self.thinking is None or self.thinking.display != "omitted"

    def _engine_thinking(self) -> bool | None:
        if self.thinking is None or self.thinking.type == "adaptive":
            return None
        return self.thinking.type == "enabled"

    def _engine_messages(self) -> Any:
        return engine_messages(system_text(self.system), self.messages)

    def _engine_tools(self) -> tuple[Tool, ...]:
        return tuple(tool.to_engine() for tool in self.tools or ())


class CountTokensRequest(_Conversation, kw_only=True, forbid_unknown_fields=True):
    """A conversation whose tokens are counted."""


class MessagesRequest(_Conversation, kw_only=True, forbid_unknown_fields=True):
    """A conversation to continue."""

    max_tokens: Annotated[MaxTokens, Meta(description="Maximum number of generated tokens.")]
    stop_sequences: StopSequences | None = None
    stream: StreamFlag | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    metadata: Annotated[Metadata | None, Meta(description="Accepted without effect.")] = None
    service_tier: (
        Annotated[Literal["auto", "standard_only"], Meta(description="Accepted without effect: there is one tier.")]
        | None
    ) = None

    @property
    def ignored_fields(self) -> tuple[str, ...]:
        """Return the names of the fields without effect that the request has."""
        return tuple(name for name in ("metadata", "service_tier", "cache_control") if getattr(self, name) is not None)

    def generation_request(self, request_id: str) -> GenerationRequest:
        """Return the engine's request. Raise InvalidRequest for what contradicts itself or is not supported."""
        choice = self.tool_choice or AnthropicToolChoice("auto")
        tools = self._engine_tools()
        if not tools and choice.type in ("any", "tool"):
            raise InvalidRequest("`tool_choice` needs `tools`: send them, or leave it out.", field="tool_choice")
        return GenerationRequest(
            request_id=request_id,
            messages=self._engine_messages(),
            sampling=SamplingParams(
                max_tokens=self.max_tokens,
                temperature=1.0 if self.temperature is None else self.temperature,
                top_p=1.0 if self.top_p is None else self.top_p,
                top_k=self.top_k or 0,
                stop=tuple(self.stop_sequences or ()),
                constraint=self._constraint(),
            ),
            tools=tools,
            tool_choice=choice.to_engine(),
            parallel_tool_calls=not choice.disable_parallel_tool_use,
            thinking=self._engine_thinking(),
            separates_reasoning=True,
        )

    def _constraint(self) -> OutputConstraint | None:
        if self.output_config is None or self.output_config.format is None:
            return None
        schema = json.dumps(self.output_config.format.schema)
        return OutputConstraint(ConstraintKind.JSON_SCHEMA, schema, "output_config.format.schema")


def parse_messages_request(value: Mapping[str, Any]) -> MessagesRequest:
    """Return the request. Raise InvalidRequest, which names the field that is not valid or not supported."""
    return parse_struct(drop_neutral_fields(value, _UNSUPPORTED), MessagesRequest)


def parse_count_tokens_request(value: Mapping[str, Any]) -> CountTokensRequest:
    """Return the request. Raise InvalidRequest, which names the field that is not valid or not supported."""
    return parse_struct(drop_neutral_fields(value, _UNSUPPORTED), CountTokensRequest)
