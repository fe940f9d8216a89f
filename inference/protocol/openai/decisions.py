"""Wire structs of POST /v1/decisions."""

import json
from collections.abc import Iterator
from itertools import chain
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from inference.engine import InvalidRequest
from inference.protocol.fields import ModelId
from inference.protocol.parsing import parse_struct

MAX_QUESTIONS = 400
MAX_CHOICES = 255
MAX_LEVELS = 10
MAX_JSON_BYTES, MAX_JSON_DEPTH, MAX_JSON_VALUES = 256 * 1024, 32, 10_000

ItemText = Annotated[str, Meta(description="Text of the part.", examples=["I was charged twice."])]
CallId = Annotated[str, Meta(description="Id that a tool's call and its output share.", examples=["call_1"])]
ItemId = Annotated[str, Meta(description="Id of the item; without effect.", examples=["fc_1"])]
Namespace = Annotated[str, Meta(description="Namespace of the tool; without effect.", examples=["shop"])]
Status = Annotated[
    Literal["in_progress", "completed", "incomplete"],
    Meta(description="Status of the item; without effect.", examples=["completed"]),
]
ToolName = Annotated[str, Meta(description="Name of the tool.", examples=["find_order"])]


class WireObject(Struct, kw_only=True, forbid_unknown_fields=True):
    """An object that refuses unknown fields."""


class CacheBreakpoint(WireObject):
    """The end of a reusable prefix; without effect, because prefixes of any length are reused."""

    mode: Annotated[Literal["explicit"], Meta(description="Always `explicit`.", examples=["explicit"])]


class InputTextPart(WireObject, tag_field="type", tag="input_text"):
    """A part with text."""

    text: ItemText
    prompt_cache_breakpoint: Annotated[
        CacheBreakpoint | None, Meta(description="End of a reusable prefix; without effect.")
    ] = None


class InputImagePart(WireObject, tag_field="type", tag="input_image"):
    """A part with an image, which is not supported."""

    image_url: Annotated[str, Meta(description="Not supported: models read text only.", examples=["data:image/png;"])]
    detail: Annotated[str, Meta(description="Detail of the image.", examples=["auto"])] | None = None
    prompt_cache_breakpoint: Annotated[
        CacheBreakpoint | None, Meta(description="End of a reusable prefix; without effect.")
    ] = None


class InputJSONPart(WireObject, tag_field="type", tag="input_json"):
    """A part with JSON, which the model reads as text."""

    data: Annotated[
        dict[str, Any] | list[dict[str, Any]],
        Meta(
            description="An object or an array of objects, up to 256 KiB, 32 levels deep and with 10,000 values.",
            examples=[{"order": 7, "status": "paid"}],
        ),
    ]


class OutputTextPart(WireObject, tag_field="type", tag="output_text"):
    """A part of an assistant's message with text."""

    text: ItemText


class RefusalPart(WireObject, tag_field="type", tag="refusal"):
    """A part of an assistant's message with a refusal."""

    refusal: Annotated[str, Meta(description="Text of the refusal.", examples=["I cannot help with that."])]


Part = InputTextPart | InputImagePart | InputJSONPart | OutputTextPart | RefusalPart
Content = str | list[Part]


class InputMessage(WireObject, tag_field="type", tag="message"):
    """A message of the conversation to evaluate."""

    role: Annotated[
        Literal["user", "assistant", "system", "developer"],
        Meta(description="Author of the message.", examples=["user"]),
    ]
    content: Annotated[Content, Meta(description="Text, or parts in their order.", examples=["I was charged twice."])]
    phase: (
        Annotated[
            Literal["commentary", "final_answer"],
            Meta(description="Phase of an assistant's message.", examples=["final_answer"]),
        ]
        | None
    ) = None


class FunctionCallItem(WireObject, tag_field="type", tag="function_call"):
    """A call of a function in the conversation."""

    call_id: CallId
    name: ToolName
    arguments: Annotated[str, Meta(description="JSON text of the arguments.", examples=['{"id": 7}'])]
    id: ItemId | None = None
    namespace: Namespace | None = None
    status: Status | None = None


class CustomToolCallItem(WireObject, tag_field="type", tag="custom_tool_call"):
    """A call of a custom tool in the conversation."""

    call_id: CallId
    name: ToolName
    input: Annotated[str, Meta(description="Input of the tool.", examples=["order 7"])]
    id: ItemId | None = None
    namespace: Namespace | None = None
    status: Status | None = None


class FunctionCallOutputItem(WireObject, tag_field="type", tag="function_call_output"):
    """The output of a function."""

    call_id: CallId
    output: Annotated[Content, Meta(description="Output, as text or as parts.", examples=["paid twice"])]
    id: ItemId | None = None
    status: Status | None = None


class CustomToolCallOutputItem(WireObject, tag_field="type", tag="custom_tool_call_output"):
    """The output of a custom tool."""

    call_id: CallId
    output: Annotated[Content, Meta(description="Output, as text or as parts.", examples=["paid twice"])]
    id: ItemId | None = None
    status: Status | None = None


ToolCallItem = FunctionCallItem | CustomToolCallItem
ToolOutputItem = FunctionCallOutputItem | CustomToolCallOutputItem
InputItem = InputMessage | FunctionCallItem | CustomToolCallItem | FunctionCallOutputItem | CustomToolCallOutputItem

Instructions = Annotated[
    str | list[Part],
    Meta(description="What to judge about the input, as text or as parts.", examples=["The customer wants a refund."]),
]
QuestionName = Annotated[str, Meta(description="Name that the answer repeats.", examples=["refund"])]
OptionDescription = Annotated[
    str, Meta(description="When this option applies.", examples=["Payments, invoices and refunds."])
]


class PredicateQuestion(WireObject, tag_field="type", tag="predicate"):
    """A statement, whose probability to be true is asked for."""

    instructions: Instructions
    name: QuestionName | None = None


class ChoiceOption(WireObject):
    """An option of a choice."""

    value: Annotated[
        Annotated[str, Meta(min_length=1)] | bool,
        Meta(description="The option. A string differs from a boolean.", examples=["billing"]),
    ]
    description: OptionDescription | None = None


class ChoiceQuestion(WireObject, tag_field="type", tag="choice"):
    """A choice of one of several options."""

    instructions: Instructions
    choices: Annotated[
        list[ChoiceOption], Meta(min_length=2, max_length=MAX_CHOICES, description="Options, each of them once.")
    ]
    name: QuestionName | None = None


class ScoreLevel(WireObject):
    """A level of a scale."""

    label: Annotated[str, Meta(min_length=1, description="Name of the level.", examples=["urgent"])]
    description: OptionDescription | None = None


class ScoreQuestion(WireObject, tag_field="type", tag="score"):
    """A rating on a scale."""

    instructions: Instructions
    levels: Annotated[
        list[ScoreLevel],
        Meta(
            min_length=2, max_length=MAX_LEVELS, description="Levels from the lowest to the highest, each of them once."
        ),
    ]
    name: QuestionName | None = None


Question = PredicateQuestion | ChoiceQuestion | ScoreQuestion


class PromptCacheOptions(WireObject):
    """Options of the prompt cache; without effect."""

    mode: (
        Annotated[
            Literal["implicit", "explicit"],
            Meta(description="Mode of the prompt cache; without effect.", examples=["implicit"]),
        ]
        | None
    ) = None
    ttl: (
        Annotated[Literal["30m"], Meta(description="Lifetime of cached prefixes; without effect.", examples=["30m"])]
        | None
    ) = None


class DecisionsRequest(WireObject):
    """Questions about one input."""

    model: ModelId
    input: Annotated[
        str | Annotated[list[InputItem], Meta(min_length=1)],
        Meta(
            description="What the questions are about: a text, or the messages and tool calls of a conversation.",
            examples=["I was charged twice for my order."],
        ),
    ]
    questions: Annotated[
        list[Question],
        Meta(min_length=1, max_length=MAX_QUESTIONS, description=f"Up to {MAX_QUESTIONS} questions."),
    ]
    prompt_cache_key: (
        Annotated[str, Meta(description="Without effect: each user has a cache of their own.", examples=["tickets"])]
        | None
    ) = None
    prompt_cache_options: Annotated[
        PromptCacheOptions | None, Meta(description="Options of the prompt cache; without effect.")
    ] = None
    safety_identifier: (
        Annotated[str, Meta(description="Identifier of your user; without effect.", examples=["user-7"])] | None
    ) = None

    @property
    def ignored_fields(self) -> tuple[str, ...]:
        """Return the names of the fields without effect that the request has."""
        names = ("prompt_cache_key", "prompt_cache_options", "safety_identifier")
        return tuple(name for name in names if getattr(self, name) is not None)


class PredicateAnswer(Struct, tag_field="type", tag="predicate"):
    """The probability that a statement is true."""

    name: Annotated[str | None, Meta(description="Name of the question, or null.", examples=["refund"])]
    probability: Annotated[float, Meta(description="Probability from 0 to 1 that it is true.", examples=[0.93])]


class ChoiceProbability(Struct):
    """The probability of one option."""

    value: Annotated[str | bool, Meta(description="The option.", examples=["billing"])]
    probability: Annotated[float, Meta(description="Probability of the option, from 0 to 1.", examples=[0.88])]


Confidence = Annotated[
    float,
    Meta(
        description="How concentrated the probabilities are: 0 if all are equal, 1 if one is certain. It is 1 minus "
        "their entropy over the highest possible one.",
        examples=[0.47],
    ),
]


class ChoiceAnswer(Struct, tag_field="type", tag="choice"):
    """The most probable option."""

    name: Annotated[str | None, Meta(description="Name of the question, or null.", examples=["department"])]
    choice: Annotated[str | bool, Meta(description="The most probable option.", examples=["billing"])]
    confidence: Confidence
    probabilities: Annotated[
        list[ChoiceProbability], Meta(description="Options in the order of the question. They add up to 1.")
    ]


class LevelProbability(Struct):
    """The probability of one level."""

    label: Annotated[str, Meta(description="Name of the level.", examples=["urgent"])]
    value: Annotated[int, Meta(description="Position of the level, from 0.", examples=[1])]
    probability: Annotated[float, Meta(description="Probability of the level, from 0 to 1.", examples=[0.7])]


class ScoreAnswer(Struct, tag_field="type", tag="score"):
    """The mean of the levels."""

    name: Annotated[str | None, Meta(description="Name of the question, or null.", examples=["urgency"])]
    score: Annotated[
        float, Meta(description="Mean of the levels' positions, weighted by their probabilities.", examples=[0.7])
    ]
    confidence: Confidence
    probabilities: Annotated[
        list[LevelProbability], Meta(description="Levels in the order of the question. They add up to 1.")
    ]


Answer = PredicateAnswer | ChoiceAnswer | ScoreAnswer


class DecisionsInputTokensDetails(Struct):
    """Details of the input's tokens."""

    cached_tokens: Annotated[
        int,
        Meta(
            description="Tokens of the input that were read from the prefix cache: by later questions of this request, "
            "or since an earlier one.",
            examples=[38],
        ),
    ]
    cache_write_tokens: Annotated[
        int, Meta(description="Tokens of the input that were computed and put into the prefix cache.", examples=[38])
    ]


class DecisionsOutputTokensDetails(Struct):
    """Details of the output's tokens."""

    reasoning_tokens: Annotated[int, Meta(description="Always 0: nothing is generated.", examples=[0])]


class DecisionsUsage(Struct):
    """Token counts of a request with questions."""

    input_tokens: Annotated[
        int, Meta(description="Tokens that the model read: the input once, and the questions.", examples=[96])
    ]
    input_tokens_details: Annotated[DecisionsInputTokensDetails, Meta(description="Details of the input's tokens.")]
    output_tokens: Annotated[int, Meta(description="Always 0: nothing is generated.", examples=[0])]
    output_tokens_details: Annotated[DecisionsOutputTokensDetails, Meta(description="Details of the output's tokens.")]
    total_tokens: Annotated[int, Meta(description="Sum of the token counts.", examples=[96])]


class DecisionsResponse(Struct):
    """Answers in the order of the questions."""

    answers: Annotated[list[Answer], Meta(description="Answers in the order of the questions.")]
    model: ModelId
    usage: Annotated[DecisionsUsage, Meta(description="Token usage of the request.")]


def parse_decisions_request(value: Any) -> DecisionsRequest:
    """Return the request of parsed JSON. An item of the input without a type is a message.

    Raise InvalidRequest, which names the field, for anything that is not valid.
    """
    if isinstance(value, dict) and isinstance(value.get("input"), list):
        items = [
            {"type": "message"} | item if isinstance(item, dict) and "role" in item else item for item in value["input"]
        ]
        value = value | {"input": items}
    request = parse_struct(value, DecisionsRequest)
    for path, part in _parts(request):
        _check_part(path, part)
    _check_tool_calls(request)
    for index, question in enumerate(request.questions):
        _check_options(index, question)
    return request


def _parts(request: DecisionsRequest) -> Iterator[tuple[str, Part]]:
    """Yield every part of the input and of the questions with its path."""
    contents: list[tuple[str, Content]] = []
    for index, item in enumerate(request.input if isinstance(request.input, list) else ()):
        if isinstance(item, InputMessage):
            contents.append((f"input[{index}].content", item.content))
        elif isinstance(item, ToolOutputItem):
            contents.append((f"input[{index}].output", item.output))
    questions = ((f"questions[{index}].instructions", one.instructions) for index, one in enumerate(request.questions))
    for path, content in chain(contents, questions):
        for place, part in enumerate(content if isinstance(content, list) else ()):
            yield f"{path}[{place}]", part


def _check_part(path: str, part: Part) -> None:
    if isinstance(part, InputImagePart):
        raise InvalidRequest(
            f"`{path}` is an image, and the models of this server read text only. Send text or JSON.", field=path
        )
    if isinstance(part, InputJSONPart):
        size, depth, values = _measure(part.data)
        if size > MAX_JSON_BYTES or depth > MAX_JSON_DEPTH or values > MAX_JSON_VALUES:
            raise InvalidRequest(
                f"`{path}.data` must be at most {MAX_JSON_BYTES} bytes, {MAX_JSON_DEPTH} levels deep and "
                f"{MAX_JSON_VALUES} values, not {size} bytes, {depth} levels and {values} values.",
                field=f"{path}.data",
            )


def _measure(data: Any) -> tuple[int, int, int]:
    """Return the bytes, levels and values of JSON."""
    depth, values, level = 0, 0, [data]
    while level:
        values += len(level)
        containers = [one for one in level if isinstance(one, dict | list)]
        depth += bool(containers)
        level = [inner for one in containers for inner in (one.values() if isinstance(one, dict) else one)]
    if depth > MAX_JSON_DEPTH:  # json.dumps is recursive
        return 0, depth, values
    return len(json_text(data).encode(errors="replace")), depth, values


def json_text(data: Any) -> str:
    """Return JSON as compact text."""
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))


def _check_tool_calls(request: DecisionsRequest) -> None:
    """Raise InvalidRequest for a tool's output without a call of its kind before it."""
    calls: set[tuple[bool, str]] = set()
    for index, item in enumerate(request.input if isinstance(request.input, list) else ()):
        if isinstance(item, ToolCallItem):
            calls.add((isinstance(item, FunctionCallItem), item.call_id))
        elif isinstance(item, ToolOutputItem) and (isinstance(item, FunctionCallOutputItem), item.call_id) not in calls:
            field = f"input[{index}].call_id"
            raise InvalidRequest(f"`{field}` must be the id of a call before it.", field=field)


def _check_options(index: int, question: Question) -> None:
    """Raise InvalidRequest for empty instructions, and for an option that occurs twice."""
    if not question.instructions:
        field = f"questions[{index}].instructions"
        raise InvalidRequest(f"`{field}` is empty. Say what to judge.", field=field)
    options: list[tuple[type, object]] = []
    name = "choices"
    if isinstance(question, ChoiceQuestion):
        options = [(type(option.value), option.value) for option in question.choices]
    elif isinstance(question, ScoreQuestion):
        options, name = [(str, level.label) for level in question.levels], "levels"
    if len(set(options)) < len(options):
        field = f"questions[{index}].{name}"
        raise InvalidRequest(f"`{field}` must have each option once.", field=field)
