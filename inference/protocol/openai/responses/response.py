"""The Response object, as it is returned, stored and repeated in events."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from inference.engine import Usage
from inference.protocol.fields import ModelId
from inference.protocol.openai.parameters import ReasoningEffort
from inference.protocol.openai.responses.items import Item, MessageItem, part_text
from inference.protocol.openai.responses.tools import ResponseTool, ToolChoiceField
from inference.protocol.token_usage import ReasoningTokens

ResponseId = Annotated[
    str, Meta(max_length=128, description="Id of the response.", examples=["resp_8f1c2a53d9c64ab2f84e1d07"])
]
Metadata = Annotated[
    dict[
        Annotated[str, Meta(max_length=64)],
        Annotated[str, Meta(max_length=512)],
    ],
    Meta(
        max_length=16,
        description="Up to 16 texts of your own, of up to 512 characters, by names of up to 64.",
        examples=[{"order": "4711"}],
    ),
]
ResponseStatus = Annotated[
    Literal["queued", "in_progress", "completed", "incomplete", "failed", "cancelled"],
    Meta(description="State of the response; the last four are final."),
]
UnixTime = Annotated[int, Meta(description="Time in Unix seconds.", examples=[1795276179])]


class ResponseErrorDetail(Struct):
    """The error of a failed response."""

    code: Annotated[
        Literal["server_error", "rate_limit_exceeded", "invalid_prompt"],
        Meta(description="Name of the error for programs."),
    ]
    message: Annotated[
        str, Meta(description="What is wrong and what to do.", examples=["The generation failed. Try again."])
    ]


class IncompleteDetails(Struct):
    """Why a response is incomplete."""

    reason: Annotated[
        Literal["max_output_tokens"], Meta(description="The limit that was reached; the context's end counts as it.")
    ]


class InputTokensDetails(Struct):
    """Details of the input's tokens."""

    cached_tokens: Annotated[
        int, Meta(description="Number of input tokens that were read from the prefix cache.", examples=[0])
    ]
    cache_write_tokens: Annotated[int, Meta(description="Always 0.", examples=[0])] = 0


class OutputTokensDetails(Struct):
    """Details of the output's tokens."""

    reasoning_tokens: ReasoningTokens


class ResponseUsage(Struct):
    """Token counts of a response."""

    input_tokens: Annotated[int, Meta(description="Number of tokens of the input.", examples=[35])]
    input_tokens_details: Annotated[InputTokensDetails, Meta(description="Details of the input's tokens.")]
    output_tokens: Annotated[int, Meta(description="Number of generated tokens.", examples=[24])]
    output_tokens_details: Annotated[OutputTokensDetails, Meta(description="Details of the output's tokens.")]
    total_tokens: Annotated[int, Meta(description="Sum of the token counts.", examples=[59])]

    @classmethod
    def from_engine(cls, usage: Usage) -> "ResponseUsage":
        return cls(
            usage.prompt_tokens,
            InputTokensDetails(usage.cached_tokens),
            usage.completion_tokens,
            OutputTokensDetails(usage.reasoning_tokens),
            usage.total_tokens,
        )


class ConversationReference(Struct):
    """The conversation of a response."""

    id: Annotated[
        str, Meta(max_length=128, description="Id of the conversation.", examples=["conv_2b7d90c1f3e84a65b0d1c9e7"])
    ]


class TextFormatText(Struct, tag_field="type", tag="text"):
    """Any text."""


class TextFormatJsonObject(Struct, tag_field="type", tag="json_object"):
    """A JSON object."""


class TextFormatJsonSchema(Struct, tag_field="type", tag="json_schema", kw_only=True):
    """JSON that is valid against a schema."""

    name: Annotated[str, Meta(max_length=64, description="Name of the schema. It has no effect.", examples=["order"])]
    schema: Annotated[dict[str, Any], Meta(description="JSON schema that the text matches.")]
    description: (
        Annotated[str, Meta(description="Purpose of the schema. It has no effect.", examples=["An order"])]
        | UnsetType
        | None
    ) = UNSET
    strict: Annotated[
        bool | None, Meta(description="No effect: the text always matches the schema.", examples=[True])
    ] = None


TextFormat = TextFormatText | TextFormatJsonObject | TextFormatJsonSchema


class TextConfig(Struct, kw_only=True, frozen=True):
    """Form of the text."""

    format: Annotated[
        TextFormat | None, Meta(description="Any text, a JSON object, or JSON that matches a schema.")
    ] = None
    verbosity: Annotated[
        Literal["medium"] | None, Meta(description="Only `medium` is supported.", examples=["medium"])
    ] = None


class ReasoningConfig(Struct, kw_only=True, frozen=True):
    """Reasoning before the answer."""

    effort: Annotated[
        ReasoningEffort | None,
        Meta(
            description="How much the model reasons before its message: an option of its chat template, or `none` to "
            "switch reasoning off.",
            examples=["low"],
        ),
    ] = None
    summary: Annotated[
        None, Meta(description="Must be null or absent: the reasoning itself is returned, not a summary.")
    ] = None


class Response(Struct, kw_only=True):
    """A response."""

    id: ResponseId
    created_at: UnixTime
    model: ModelId
    status: ResponseStatus
    tools: Annotated[list[ResponseTool], Meta(description="Tools of the request.")]
    object: Annotated[Literal["response"], Meta(description="Kind of the object.")] = "response"
    output: Annotated[list[Item], Meta(description="Items that the model wrote.")] = []
    background: Annotated[
        bool, Meta(description="Whether a worker runs it, whatever becomes of the connection.", examples=[False])
    ] = False
    completed_at: Annotated[UnixTime | None, Meta(description="Time of the end of a complete response.")] = None
    conversation: Annotated[
        ConversationReference | None, Meta(description="Conversation that the items belong to.")
    ] = None
    error: Annotated[ResponseErrorDetail | None, Meta(description="Error of a failed response.")] = None
    incomplete_details: Annotated[IncompleteDetails | None, Meta(description="Why the response is incomplete.")] = None
    instructions: Annotated[
        str | None, Meta(description="Instructions of the request.", examples=["Answer briefly."])
    ] = None
    max_output_tokens: Annotated[
        int | None, Meta(description="Maximum number of generated tokens.", examples=[200])
    ] = None
    max_tool_calls: Annotated[
        int | None, Meta(description="Maximum of the request. There are no built-in tools to limit.", examples=[4])
    ] = None
    metadata: Metadata = {}
    parallel_tool_calls: Annotated[
        bool, Meta(description="Whether the model may request several calls at once.", examples=[True])
    ] = True
    previous_response_id: Annotated[
        str | None,
        Meta(description="Response that this one continues.", examples=["resp_8f1c2a53d9c64ab2f84e1d07"]),
    ] = None
    prompt_cache_key: Annotated[
        str | None, Meta(description="Key of the request. It has no effect.", examples=["shop-4711"])
    ] = None
    reasoning: Annotated[ReasoningConfig, Meta(description="Reasoning of the request.")] = ReasoningConfig()
    safety_identifier: Annotated[
        str | None, Meta(description="Identifier of the request. It has no effect.", examples=["customer-42"])
    ] = None
    service_tier: Annotated[str, Meta(description="Always `default`.", examples=["default"])] = "default"
    store: Annotated[bool, Meta(description="Whether the response is stored.", examples=[True])] = True
    temperature: Annotated[float, Meta(description="Sampling temperature.", examples=[1.0])] = 1.0
    text: Annotated[TextConfig, Meta(description="Form of the text.")] = TextConfig(
        format=TextFormatText(), verbosity="medium"
    )
    tool_choice: Annotated[
        ToolChoiceField, Meta(description="Whether the model calls tools, and which.", examples=["auto"])
    ] = "auto"
    top_logprobs: Annotated[
        int, Meta(description="Number of most probable tokens beside each token.", examples=[0])
    ] = 0
    top_p: Annotated[float, Meta(description="Probability mass of the tokens to sample from.", examples=[1.0])] = 1.0
    truncation: Annotated[
        Literal["auto", "disabled"], Meta(description="Whether old items are dropped from an input that is too long.")
    ] = "disabled"
    usage: Annotated[ResponseUsage | None, Meta(description="Token usage, once the response has ended.")] = None
    user: Annotated[
        str | None, Meta(description="Your user of the request. It has no effect.", examples=["customer-42"])
    ] = None

    @property
    def text_output(self) -> str:
        """The text of all messages."""
        return "".join(part_text(item.content) for item in self.output if isinstance(item, MessageItem))


class ResponseDeleted(Struct):
    """The answer to a deletion."""

    id: ResponseId
    object: Annotated[Literal["response"], Meta(description="Kind of the object.")] = "response"
    deleted: Annotated[Literal[True], Meta(description="Always true.")] = True


class ItemList(Struct, kw_only=True):
    """A page of items."""

    data: Annotated[list[Item], Meta(description="Items of the page.")]
    first_id: Annotated[
        str, Meta(description="Id of the first item, or an empty string.", examples=["msg_4f0c8d2e7b6a4915a3c1d0e2"])
    ]
    last_id: Annotated[
        str, Meta(description="Id of the last item, or an empty string.", examples=["msg_4f0c8d2e7b6a4915a3c1d0e2"])
    ]
    has_more: Annotated[bool, Meta(description="Whether there are more items after these.", examples=[False])]
    object: Annotated[Literal["list"], Meta(description="Kind of the object.")] = "list"
