"""Events of a streamed response. Each has its type and a sequence number, which counts from 0."""

from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from inference.protocol.logprobs import ChatTokenLogprob
from inference.protocol.openai.responses.items import ContentPart, CustomInput, Item, ItemId, ReasoningText
from inference.protocol.openai.responses.response import Response

SequenceNumber = Annotated[int, Meta(description="Number of the event, from 0 without gaps.", examples=[4])]
OutputIndex = Annotated[int, Meta(description="Position of the item in the output, from 0.", examples=[0])]
ContentIndex = Annotated[int, Meta(description="Position of the part in the item, from 0.", examples=[0])]
ResponseField = Annotated[Response, Meta(description="Response as it is now.")]
ItemField = Annotated[Item, Meta(description="Item as it is now.")]
PartField = Annotated[ContentPart | ReasoningText, Meta(description="Part as it is now.")]
Delta = Annotated[str, Meta(description="Further text.", examples=[" quiet"])]
Logprobs = Annotated[list[ChatTokenLogprob], Meta(description="Log probabilities of the text's tokens, if requested.")]
GeneratedText = Annotated[str, Meta(description="Whole text.", examples=["A quiet kettle."])]

_encoder = msgspec.json.Encoder()


class Event(Struct, tag_field="type", kw_only=True):
    """An event."""

    sequence_number: SequenceNumber


class ResponseCreatedEvent(Event, tag="response.created", kw_only=True):
    """The first event."""

    response: ResponseField


class ResponseQueuedEvent(Event, tag="response.queued", kw_only=True):
    """A background response waits for a worker."""

    response: ResponseField


class ResponseInProgressEvent(Event, tag="response.in_progress", kw_only=True):
    """The generation has begun."""

    response: ResponseField


class ResponseCompletedEvent(Event, tag="response.completed", kw_only=True):
    """The last event of a complete response."""

    response: ResponseField


class ResponseIncompleteEvent(Event, tag="response.incomplete", kw_only=True):
    """The last event of a response that reached a limit or was cancelled."""

    response: ResponseField


class ResponseFailedEvent(Event, tag="response.failed", kw_only=True):
    """The last event of a response that failed."""

    response: ResponseField


class OutputItemAddedEvent(Event, tag="response.output_item.added", kw_only=True):
    """A new item of the output."""

    output_index: OutputIndex
    item: ItemField


class OutputItemDoneEvent(Event, tag="response.output_item.done", kw_only=True):
    """The end of an item."""

    output_index: OutputIndex
    item: ItemField


class ContentPartAddedEvent(Event, tag="response.content_part.added", kw_only=True):
    """A new part of a message or of reasoning."""

    item_id: ItemId
    output_index: OutputIndex
    content_index: ContentIndex
    part: PartField


class ContentPartDoneEvent(Event, tag="response.content_part.done", kw_only=True):
    """The end of a part of a message or of reasoning."""

    item_id: ItemId
    output_index: OutputIndex
    content_index: ContentIndex
    part: PartField


class OutputTextDeltaEvent(Event, tag="response.output_text.delta", kw_only=True):
    """Further text of a message."""

    item_id: ItemId
    output_index: OutputIndex
    content_index: ContentIndex
    delta: Delta
    logprobs: Logprobs = []


class OutputTextDoneEvent(Event, tag="response.output_text.done", kw_only=True):
    """The end of the text of a message."""

    item_id: ItemId
    output_index: OutputIndex
    content_index: ContentIndex
    text: GeneratedText
    logprobs: Logprobs = []


class ReasoningTextDeltaEvent(Event, tag="response.reasoning_text.delta", kw_only=True):
    """Further reasoning."""

    item_id: ItemId
    output_index: OutputIndex
    content_index: ContentIndex
    delta: Delta


class ReasoningTextDoneEvent(Event, tag="response.reasoning_text.done", kw_only=True):
    """The end of the reasoning."""

    item_id: ItemId
    output_index: OutputIndex
    content_index: ContentIndex
    text: GeneratedText


class FunctionCallArgumentsDeltaEvent(Event, tag="response.function_call_arguments.delta", kw_only=True):
    """Further text of a call's arguments."""

    item_id: ItemId
    output_index: OutputIndex
    delta: Annotated[str, Meta(description="Further text of the arguments.", examples=['{"product":'])]


class FunctionCallArgumentsDoneEvent(Event, tag="response.function_call_arguments.done", kw_only=True):
    """The end of a call's arguments."""

    item_id: ItemId
    output_index: OutputIndex
    name: Annotated[str, Meta(description="Name of the function.", examples=["order"])]
    arguments: Annotated[str, Meta(description="Whole arguments.", examples=['{"product": "lamp", "amount": 2}'])]


class CustomToolCallInputDeltaEvent(Event, tag="response.custom_tool_call_input.delta", kw_only=True):
    """Further text of a custom tool's input."""

    item_id: ItemId
    output_index: OutputIndex
    delta: Delta


class CustomToolCallInputDoneEvent(Event, tag="response.custom_tool_call_input.done", kw_only=True):
    """The end of a custom tool's input."""

    item_id: ItemId
    output_index: OutputIndex
    input: CustomInput


RESPONSE_EVENTS = (
    ResponseCreatedEvent,
    ResponseQueuedEvent,
    ResponseInProgressEvent,
    OutputItemAddedEvent,
    ContentPartAddedEvent,
    OutputTextDeltaEvent,
    OutputTextDoneEvent,
    ReasoningTextDeltaEvent,
    ReasoningTextDoneEvent,
    ContentPartDoneEvent,
    FunctionCallArgumentsDeltaEvent,
    FunctionCallArgumentsDoneEvent,
    CustomToolCallInputDeltaEvent,
    CustomToolCallInputDoneEvent,
    OutputItemDoneEvent,
    ResponseCompletedEvent,
    ResponseIncompleteEvent,
    ResponseFailedEvent,
)


def encode_response_event(event: Event) -> bytes:
    """Return one event as the bytes of a stream, with its type in the line `event`."""
    return b"event: %s\ndata: %s\n\n" % (str(type(event).__struct_config__.tag).encode(), _encoder.encode(event))
