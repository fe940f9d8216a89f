"""The body of POST /v1/responses. Fields that this server cannot follow are rejected by name, and unknown ones too."""

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from inference.engine import (
    ConstraintKind,
    GenerationRequest,
    InvalidRequest,
    Message,
    OutputConstraint,
    SamplingParams,
)
from inference.protocol.fields import ModelId
from inference.protocol.openai.parameters import template_fields
from inference.protocol.openai.responses.items import (
    MAX_INPUT_ITEMS,
    InputTextPart,
    Item,
    MessageItem,
    with_item_types,
)
from inference.protocol.openai.responses.response import (
    ConversationReference,
    Metadata,
    ReasoningConfig,
    Response,
    ResponseId,
    ResponseStatus,
    ResponseUsage,
    TextConfig,
    TextFormatJsonSchema,
    TextFormatText,
)
from inference.protocol.openai.responses.tools import (
    MAX_TOOLS,
    ResponseTool,
    ToolChoiceField,
    check_tools,
    engine_tools,
)
from inference.protocol.parameters import (
    FrequencyPenalty,
    MaxTokens,
    MinP,
    PresencePenalty,
    RepeatPenalty,
    Seed,
    StopSequence,
    StopSequences,
    StreamFlag,
    Temperature,
    Timeout,
    TopK,
    TopP,
)
from inference.protocol.parsing import UnsupportedFields, drop_neutral_fields, parse_struct
from inference.protocol.response_format import Grammar, Regex, only_constraint, output_constraints

_UNSUPPORTED: UnsupportedFields = {
    "access_programs": (),
    "context_management": ([],),
    "image": (),
    "moderation": (),
    "personality": (),
    "prompt": (),
    "prompt_cache_options": ({},),
    "prompt_cache_retention": (),
    "service_tier": ("auto", "default"),
}
_INCLUDABLE = ("message.output_text.logprobs", "reasoning.encrypted_content")

InputField = Annotated[
    str | Annotated[list[Item], Meta(max_length=MAX_INPUT_ITEMS)] | None,
    Meta(
        description="Text of the user, or items, the oldest first. The `type` of a message may be left out.",
        examples=["Describe a lamp."],
    ),
]
Instructions = Annotated[
    str, Meta(description="Message of the system for this response alone.", examples=["Answer briefly."])
]
ConversationField = (
    Annotated[
        str, Meta(max_length=128, description="Id of a conversation.", examples=["conv_2b7d90c1f3e84a65b0d1c9e7"])
    ]
    | ConversationReference
)
IncludeField = Annotated[
    list[Annotated[str, Meta(max_length=100)]],
    Meta(
        max_length=16,
        description="Further contents of the response: `message.output_text.logprobs`. `reasoning.encrypted_content` "
        "is accepted and adds nothing.",
        examples=[["message.output_text.logprobs"]],
    ),
]


class ResponseStreamOptions(Struct, forbid_unknown_fields=True):
    """Options of a stream."""

    include_obfuscation: (
        Annotated[bool, Meta(description="Not supported: must be false or absent.", examples=[False])] | None
    ) = None


class ResponseContext(Struct, kw_only=True, forbid_unknown_fields=True):
    """The input of a response, which counting, compaction and creation share."""

    model: ModelId
    input: InputField = None
    instructions: Instructions | None = None
    previous_response_id: Annotated[ResponseId, Meta(description="Response that this one continues.")] | None = None
    user: (
        Annotated[str, Meta(max_length=256, description="Your user. It has no effect.", examples=["customer-42"])]
        | None
    ) = None
    prompt_cache_key: (
        Annotated[
            str,
            Meta(max_length=256, description="It has no effect: prefixes are always cached.", examples=["shop-4711"]),
        ]
        | None
    ) = None
    service_tier: (
        Annotated[Literal["auto", "default"], Meta(description="It has no effect.", examples=["auto"])] | None
    ) = None

    def new_items(self) -> list[Item]:
        """Return the items of the input, with the contents of messages as parts."""
        if isinstance(self.input, str):
            return [MessageItem(role="user", content=[InputTextPart(self.input)])]
        return list(self.input or ())


class ToolParameters(ResponseContext, kw_only=True, forbid_unknown_fields=True):
    """The input of a response with everything that its prompt contains."""

    conversation: Annotated[
        ConversationField | None,
        Meta(description="Conversation whose items precede the input, and to which this response's are added."),
    ] = None
    parallel_tool_calls: (
        Annotated[bool, Meta(description="Whether the model may request several calls at once.", examples=[True])]
        | None
    ) = None
    reasoning: Annotated[ReasoningConfig | None, Meta(description="Whether and how much the model reasons first.")] = (
        None
    )
    text: Annotated[TextConfig | None, Meta(description="Form of the text.")] = None
    tool_choice: Annotated[
        ToolChoiceField | None,
        Meta(
            description="Whether the model calls tools: `none`, `auto` (the default), `required`, a named tool, or "
            "`allowed_tools`.",
            examples=["auto"],
        ),
    ] = None
    tools: Annotated[
        Annotated[list[ResponseTool], Meta(max_length=MAX_TOOLS)] | None,
        Meta(description="Tools that the model may call, at most 128. Your program runs them."),
    ] = None
    truncation: Annotated[
        Literal["auto", "disabled"] | None,
        Meta(
            description="With `auto` the oldest items are dropped from an input that is longer than the context. By "
            "default such an input is an error."
        ),
    ] = None

    @property
    def conversation_id(self) -> str | None:
        return self.conversation.id if isinstance(self.conversation, ConversationReference) else self.conversation

    def prompt_options(self) -> dict[str, Any]:
        """Return the fields of the engine's request that change its prompt, beside the messages.

        Raise InvalidRequest for a choice of tools that are not there.
        """
        tools, tool_choice = engine_tools(self.tools or (), self.tool_choice)
        effort = self.reasoning.effort if self.reasoning else None
        return {
            "tools": tools,
            "tool_choice": tool_choice,
            "parallel_tool_calls": self.parallel_tool_calls is not False,
            "template_options": {} if effort in (None, "none") else {"reasoning_effort": effort},
            "thinking": False if effort == "none" else None,
            "separates_reasoning": True,
        }

    def check_context(self) -> None:
        """Raise InvalidRequest for a context that contradicts itself."""
        if self.previous_response_id is not None and self.conversation is not None:
            message = "`previous_response_id` and `conversation` exclude each other: send one of them."
            raise InvalidRequest(message, field="previous_response_id")
        if not self.new_items() and self.previous_response_id is None and self.conversation is None:
            raise InvalidRequest("`input` is required: send a text or at least one item.", field="input")


class ResponseCreateRequest(ToolParameters, kw_only=True, forbid_unknown_fields=True):
    """A response to create. `seed`, `top_k` and the fields after it extend OpenAI's API."""

    background: (
        Annotated[
            bool,
            Meta(
                description="Whether a worker runs it, whatever becomes of the connection and of any process.",
                examples=[False],
            ),
        ]
        | None
    ) = None
    include: IncludeField | None = None
    max_output_tokens: Annotated[MaxTokens, Meta(description="Maximum number of generated tokens.")] | None = None
    max_tool_calls: (
        Annotated[
            int,
            Meta(
                ge=1,
                le=1_000_000,
                description="Maximum of calls of built-in tools, which do not exist here.",
                examples=[4],
            ),
        ]
        | None
    ) = None
    metadata: Metadata | None = None
    safety_identifier: (
        Annotated[str, Meta(max_length=128, description="It has no effect.", examples=["customer-42"])] | None
    ) = None
    store: (
        Annotated[bool, Meta(description="Whether the response is stored; true by default.", examples=[True])] | None
    ) = None
    stream: StreamFlag | None = None
    stream_options: Annotated[ResponseStreamOptions | None, Meta(description="Options of the stream.")] = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_logprobs: (
        Annotated[
            int,
            Meta(ge=0, le=20, description="Number of most probable tokens to return beside each token.", examples=[2]),
        ]
        | None
    ) = None
    seed: Seed | None = None
    top_k: TopK | None = None
    min_p: MinP | None = None
    repeat_penalty: RepeatPenalty | None = None
    presence_penalty: PresencePenalty | None = None
    frequency_penalty: FrequencyPenalty | None = None
    stop: Annotated[
        StopSequence | StopSequences | None,
        Meta(
            description="A sequence, or up to 16 sequences, before which the generation ends. They are not part of the "
            "text.",
            examples=[["\n"]],
        ),
    ] = None
    regex: Regex | None = None
    grammar: Grammar | None = None
    timeout: Timeout | None = None

    @property
    def is_stored(self) -> bool:
        return self.store is not False

    @property
    def has_logprobs(self) -> bool:
        return bool(self.top_logprobs) or "message.output_text.logprobs" in (self.include or ())

    def generation_request(
        self, request_id: str, messages: Sequence[Message], *, seed: int | None = None
    ) -> GenerationRequest:
        """Return the engine's request. seed: the seed of a request that has none."""
        return GenerationRequest(
            request_id=request_id,
            messages=tuple(messages),
            sampling=SamplingParams(
                max_tokens=self.max_output_tokens,
                temperature=1.0 if self.temperature is None else self.temperature,
                top_p=1.0 if self.top_p is None else self.top_p,
                top_k=self.top_k or 0,
                min_p=self.min_p or 0.0,
                repeat_penalty=1.0 if self.repeat_penalty is None else self.repeat_penalty,
                presence_penalty=self.presence_penalty or 0.0,
                frequency_penalty=self.frequency_penalty or 0.0,
                seed=seed if self.seed is None else self.seed,
                stop=(self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ()),
                logprobs=(self.top_logprobs or 0) if self.has_logprobs else None,
                constraint=self._constraint(),
            ),
            timeout=self.timeout,
            default_parameters=("seed",) if self.seed is None and seed is not None else (),
            **self.prompt_options(),
        )

    def to_response(self, response_id: str, created_at: int, status: ResponseStatus) -> Response:
        """Return the response without output."""
        text_format = self.text.format if self.text and self.text.format else TextFormatText()
        return Response(
            id=response_id,
            created_at=created_at,
            model=self.model,
            status=status,
            background=self.background is True,
            conversation=None if self.conversation_id is None else ConversationReference(self.conversation_id),
            instructions=self.instructions,
            max_output_tokens=self.max_output_tokens,
            max_tool_calls=self.max_tool_calls,
            metadata=self.metadata or {},
            parallel_tool_calls=self.parallel_tool_calls is not False,
            previous_response_id=self.previous_response_id,
            prompt_cache_key=self.prompt_cache_key,
            reasoning=self.reasoning or ReasoningConfig(),
            safety_identifier=self.safety_identifier,
            store=self.is_stored,
            temperature=1.0 if self.temperature is None else self.temperature,
            text=TextConfig(format=text_format, verbosity="medium"),
            tool_choice=self.tool_choice or "auto",
            tools=self.tools or [],
            top_logprobs=self.top_logprobs or 0,
            top_p=1.0 if self.top_p is None else self.top_p,
            truncation=self.truncation or "disabled",
            user=self.user,
        )

    def check(self) -> None:
        """Raise InvalidRequest for fields that contradict each other or are not supported."""
        self.check_context()
        if self.background and not self.is_stored:
            raise InvalidRequest("`background` needs `store`: leave it out or set it to true.", field="store")
        if self.conversation is not None and not self.is_stored:
            raise InvalidRequest("`conversation` needs `store`: leave it out or set it to true.", field="store")
        if self.stream_options is not None and not self.stream:
            raise InvalidRequest("`stream_options` needs `stream`: set it to true.", field="stream_options")
        if self.stream_options is not None and self.stream_options.include_obfuscation:
            field = "stream_options.include_obfuscation"
            raise InvalidRequest(f"`{field}` is not supported. Leave it out.", field=field)
        for place, name in enumerate(self.include or ()):
            if name not in _INCLUDABLE:
                message = f"`include[{place}]` must be one of {', '.join(_INCLUDABLE)}, not {name!r}."
                raise InvalidRequest(message, field=f"include[{place}]")

    def _constraint(self) -> OutputConstraint | None:
        text_format = self.text.format if self.text else None
        if text_format is None or isinstance(text_format, TextFormatText):
            return only_constraint(output_constraints(None, self.regex, self.grammar))
        if self.regex is not None or self.grammar is not None:
            message = "`text.format`, `regex` and `grammar` exclude each other: send one of them."
            raise InvalidRequest(message, field="text.format")
        if isinstance(text_format, TextFormatJsonSchema):
            return OutputConstraint(ConstraintKind.JSON_SCHEMA, json.dumps(text_format.schema))
        return OutputConstraint(ConstraintKind.JSON_OBJECT)


class InputTokensRequest(ToolParameters, kw_only=True, forbid_unknown_fields=True):
    """An input to count."""


class InputTokens(Struct):
    """The size of an input."""

    input_tokens: Annotated[
        int, Meta(description="Number of tokens of the prompt, with instructions and tools.", examples=[35])
    ]
    object: Annotated[Literal["response.input_tokens"], Meta(description="Kind of the object.")] = (
        "response.input_tokens"
    )


class CompactRequest(ResponseContext, kw_only=True, forbid_unknown_fields=True):
    """A conversation to compact."""


class CompactedResponse(Struct, kw_only=True):
    """A compacted conversation."""

    id: ResponseId
    created_at: Annotated[int, Meta(description="Creation time in Unix seconds.", examples=[1795276179])]
    output: Annotated[list[Item], Meta(description="One compaction, to send in the place of the conversation.")]
    usage: Annotated[ResponseUsage, Meta(description="Token usage of the summary.")]
    object: Annotated[Literal["response.compaction"], Meta(description="Kind of the object.")] = "response.compaction"


class RetrieveQuery(Struct, kw_only=True):
    """Query of GET /v1/responses/{response_id}."""

    stream: Annotated[
        bool,
        Meta(
            description="Whether to send the events of the response, from the first or from a position.",
            examples=[True],
        ),
    ] = False
    starting_after: (
        Annotated[
            int,
            Meta(
                ge=0,
                le=2**31 - 1,
                description="Number of the last event that you have. Only with `stream`.",
                examples=[41],
            ),
        ]
        | None
    ) = None
    include_obfuscation: Annotated[
        Literal["false"] | None, Meta(description="Not supported: must be false or absent.", examples=["false"])
    ] = None


class ItemListQuery(Struct, kw_only=True):
    """Query of a list of items."""

    after: (
        Annotated[
            str,
            Meta(
                max_length=128,
                description="Id of the last item that you have.",
                examples=["msg_4f0c8d2e7b6a4915a3c1d0e2"],
            ),
        ]
        | None
    ) = None
    limit: Annotated[int, Meta(ge=1, le=100, description="Maximum number of items.", examples=[20])] = 20
    order: Annotated[
        Literal["asc", "desc"], Meta(description="Order of the items: the newest first by default.", examples=["asc"])
    ] = "desc"


def parse_response_request(value: Mapping[str, Any]) -> ResponseCreateRequest:
    """Return the request. Raise InvalidRequest, which names the field that is not valid or not supported."""
    body = parse_struct(_checked(value), ResponseCreateRequest)
    body.check()
    return body


def parse_input_tokens_request(value: Mapping[str, Any]) -> InputTokensRequest:
    """Return the request. Raise InvalidRequest, which names the field that is not valid or not supported."""
    body = parse_struct(_checked(value), InputTokensRequest)
    body.check_context()
    return body


def parse_compact_request(value: Mapping[str, Any]) -> CompactRequest:
    """Return the request. Raise InvalidRequest, which names the field that is not valid or not supported."""
    body = parse_struct(_checked(value), CompactRequest)
    if not body.new_items() and body.previous_response_id is None:
        raise InvalidRequest("`input` is required: send a text or at least one item.", field="input")
    return body


def _checked(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the body without neutral fields, and with the types of items. Raise InvalidRequest for other fields."""
    if not isinstance(value, Mapping):
        return value
    drop_neutral_fields(value, {**_UNSUPPORTED, **template_fields(value)})
    check_tools(value.get("tools"))
    _check_reasoning(value.get("reasoning"))
    kept = {name: content for name, content in value.items() if name not in _UNSUPPORTED or name == "service_tier"}
    return {**kept, "input": with_item_types(value.get("input"), "input")}


def _check_reasoning(reasoning: object) -> None:
    """Raise InvalidRequest for an option of reasoning other than its effort."""
    if not isinstance(reasoning, Mapping):
        return
    for name, content in reasoning.items():
        if content is not None and name != "effort":
            field = f"reasoning.{name}"
            raise InvalidRequest(f"`{field}` is not supported: only `reasoning.effort` is. Leave it out.", field=field)
