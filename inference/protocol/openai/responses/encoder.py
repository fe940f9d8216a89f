"""The items and events of one response, made from the engine's outputs.

The same outputs always give the same events, with the same ids: a response that runs again continues its stream.
"""

import hashlib
import json
from collections.abc import Iterator
from typing import Literal, cast

from msgspec.structs import replace

from inference.engine import EngineError, FinishReason, GenerationOutput, ToolCallDelta, Usage
from inference.protocol.errors import ErrorCode, error_code_and_status, error_from_output
from inference.protocol.logprobs import ChatTokenLogprob, choice_logprobs
from inference.protocol.openai.responses.events import (
    ContentPartAddedEvent,
    ContentPartDoneEvent,
    CustomToolCallInputDeltaEvent,
    CustomToolCallInputDoneEvent,
    Event,
    FunctionCallArgumentsDeltaEvent,
    FunctionCallArgumentsDoneEvent,
    OutputItemAddedEvent,
    OutputItemDoneEvent,
    OutputTextDeltaEvent,
    OutputTextDoneEvent,
    ReasoningTextDeltaEvent,
    ReasoningTextDoneEvent,
    ResponseCompletedEvent,
    ResponseCreatedEvent,
    ResponseFailedEvent,
    ResponseIncompleteEvent,
    ResponseInProgressEvent,
    ResponseQueuedEvent,
    encode_response_event,
)
from inference.protocol.openai.responses.items import (
    CUSTOM_INPUT,
    CustomToolCallItem,
    FunctionCallItem,
    Item,
    MessageItem,
    OutputTextPart,
    ReasoningItem,
    ReasoningText,
)
from inference.protocol.openai.responses.response import (
    IncompleteDetails,
    Response,
    ResponseErrorDetail,
    ResponseUsage,
)
from inference.protocol.openai.responses.tools import CustomTool

ItemStatus = Literal["in_progress", "completed", "incomplete"]
_FINAL_EVENTS = {
    "completed": ResponseCompletedEvent,
    "incomplete": ResponseIncompleteEvent,
    "cancelled": ResponseIncompleteEvent,
    "failed": ResponseFailedEvent,
}


def derived_id(prefix: str, *parts: object) -> str:
    """Return an id that is the same whenever it is derived from the same parts."""
    return prefix + hashlib.sha256("/".join(map(str, parts)).encode()).hexdigest()[:24]


def final_event(response: Response, sequence_number: int) -> bytes:
    """Return the event that ends the stream of a response with a final status."""
    return encode_response_event(_FINAL_EVENTS[response.status](sequence_number=sequence_number, response=response))


def error_detail(error: EngineError) -> ResponseErrorDetail:
    """Return an engine's error as the error of a response."""
    code, status = error_code_and_status(error)
    if code is ErrorCode.RATE_LIMIT_EXCEEDED:
        return ResponseErrorDetail("rate_limit_exceeded", error.message)
    return ResponseErrorDetail("invalid_prompt" if status == 400 else "server_error", error.message)


class ResponseEncoder:
    """The encoder of one response. `response` is its state, which is final once `has_ended`."""

    def __init__(self, response: Response, *, with_logprobs: bool = False) -> None:
        self.response = response
        self.next_index = 0
        self.has_ended = False
        self._with_logprobs = with_logprobs
        self._custom_tools = {tool.name for tool in response.tools if isinstance(tool, CustomTool)}
        self._output: list[Item] = []
        self._item: Item | None = None  # the one that is being written
        self._pieces: list[str] = []
        self._logprobs: list[ChatTokenLogprob] = []
        self._held_logprobs: list[ChatTokenLogprob] = []  # of tokens whose text, if it is a message's, comes later

    def start(self) -> list[bytes]:
        """Return the first events, before there is any output."""
        first = self.response
        frames = [self._frame(ResponseCreatedEvent(sequence_number=self.next_index, response=first))]
        if first.background:
            frames.append(self._frame(ResponseQueuedEvent(sequence_number=self.next_index, response=first)))
        return frames

    def begin(self) -> bytes:
        """Return the event that says that the generation has begun."""
        self.response = replace(self.response, status="in_progress")
        return self._frame(ResponseInProgressEvent(sequence_number=self.next_index, response=self.response))

    def push(self, output: GenerationOutput, *, ended_at: float) -> list[bytes]:
        """Return the events of an output. After the last one the response is final, and `end` returns its event.

        ended_at: Unix seconds, in case that it is the last output.
        """
        return list(self._push(output, ended_at))

    def end(self) -> bytes:
        """Return the last event."""
        frame = final_event(self.response, self.next_index)
        self.next_index += 1
        return frame

    def fail(self, error: ResponseErrorDetail, *, usage: Usage | None = None) -> None:
        """End the response with an error. Items that were being written are part of it as `incomplete`."""
        if self._item is not None:
            self._output.append(self._whole_item("incomplete"))
        self._finish("failed", usage, error=error)

    def _push(self, output: GenerationOutput, ended_at: float) -> Iterator[bytes]:
        if output.finish_reason in (FinishReason.ERROR, FinishReason.CANCELLED):
            self.fail(error_detail(error_from_output(output)), usage=output.usage)
            return
        if output.reasoning:
            yield from self._add_reasoning(output.reasoning)
        if self._with_logprobs and (output.text or isinstance(self._item, MessageItem | None)):
            self._held_logprobs += choice_logprobs(output.logprobs).content
        if output.text or (self._held_logprobs and isinstance(self._item, MessageItem)):
            yield from self._add_text(output.text)
        for delta in output.tool_calls:
            yield from self._add_call_piece(delta)
        if output.reasoning or output.tool_calls:
            self._held_logprobs = []  # they were not of a message
        if output.finish_reason is not None:
            yield from self._finish_items(output.finish_reason)
            is_cut = output.finish_reason is FinishReason.LENGTH
            self._finish("incomplete" if is_cut else "completed", output.usage, ended_at=ended_at)

    def _add_reasoning(self, text: str) -> Iterator[bytes]:
        if not isinstance(self._item, ReasoningItem):
            yield from self._close_item("completed")
            item_id = derived_id("rs_", self.response.id, len(self._output))
            yield self._open(ReasoningItem(summary=[], content=[], id=item_id, status="in_progress"))
            yield self._open_part(ReasoningText(""))
        self._pieces.append(text)
        yield self._frame(
            ReasoningTextDeltaEvent(
                sequence_number=self.next_index,
                item_id=self._item_id,
                output_index=len(self._output),
                content_index=0,
                delta=text,
            )
        )

    def _add_text(self, text: str) -> Iterator[bytes]:
        if not isinstance(self._item, MessageItem):
            yield from self._close_item("completed")
            yield from self._open_message()
        logprobs, self._held_logprobs = self._held_logprobs, []
        self._pieces.append(text)
        self._logprobs += logprobs
        yield self._frame(
            OutputTextDeltaEvent(
                sequence_number=self.next_index,
                item_id=self._item_id,
                output_index=len(self._output),
                content_index=0,
                delta=text,
                logprobs=logprobs,
            )
        )

    def _open_message(self) -> Iterator[bytes]:
        item_id = derived_id("msg_", self.response.id, len(self._output))
        yield self._open(MessageItem(role="assistant", content=[], id=item_id, status="in_progress"))
        yield self._open_part(self._part("", []))

    def _add_call_piece(self, delta: ToolCallDelta) -> Iterator[bytes]:
        if delta.index > 0 and not self.response.parallel_tool_calls:
            return  # the first call is the whole answer
        if delta.id is not None:
            yield from self._close_item("completed")
            yield self._open(self._new_call(delta.name or ""))
        if not delta.arguments:
            return
        self._pieces.append(delta.arguments)
        if isinstance(self._item, FunctionCallItem):
            yield self._frame(
                FunctionCallArgumentsDeltaEvent(
                    sequence_number=self.next_index,
                    item_id=self._item_id,
                    output_index=len(self._output),
                    delta=delta.arguments,
                )
            )

    def _new_call(self, name: str) -> Item:
        position = len(self._output)
        call_id = derived_id("call_", self.response.id, position)
        if name in self._custom_tools:
            item_id = derived_id("ctc_", self.response.id, position)
            return CustomToolCallItem(call_id=call_id, name=name, input="", id=item_id, status="in_progress")
        item_id = derived_id("fc_", self.response.id, position)
        return FunctionCallItem(call_id=call_id, name=name, arguments="", id=item_id, status="in_progress")

    def _finish_items(self, reason: FinishReason) -> Iterator[bytes]:
        if self._item is None and not self._output:
            yield from self._open_message()  # an empty answer is a message without text
        yield from self._close_item("incomplete" if reason is FinishReason.LENGTH else "completed")

    def _open(self, item: Item) -> bytes:
        self._item = item
        return self._frame(
            OutputItemAddedEvent(sequence_number=self.next_index, output_index=len(self._output), item=item)
        )

    def _open_part(self, part: OutputTextPart | ReasoningText) -> bytes:
        return self._frame(
            ContentPartAddedEvent(
                sequence_number=self.next_index,
                item_id=self._item_id,
                output_index=len(self._output),
                content_index=0,
                part=part,
            )
        )

    def _close_item(self, status: ItemStatus) -> Iterator[bytes]:
        """Yield the last events of the item that is being written, if one is."""
        if self._item is None:
            return
        item, position = self._whole_item(status), len(self._output)
        if isinstance(item, MessageItem):
            yield from self._close_message(item, position)
        elif isinstance(item, ReasoningItem):
            yield from self._close_reasoning(item, position)
        elif isinstance(item, FunctionCallItem):
            yield self._frame(
                FunctionCallArgumentsDoneEvent(
                    sequence_number=self.next_index,
                    item_id=self._item_id,
                    output_index=position,
                    name=item.name,
                    arguments=item.arguments,
                )
            )
        elif isinstance(item, CustomToolCallItem):
            yield from self._close_custom_call(item, position)
        yield self._frame(OutputItemDoneEvent(sequence_number=self.next_index, output_index=position, item=item))
        self._output.append(item)
        self._item, self._pieces, self._logprobs = None, [], []

    def _close_message(self, item: MessageItem, position: int) -> Iterator[bytes]:
        part = cast("OutputTextPart", item.content[0])
        yield self._frame(
            OutputTextDoneEvent(
                sequence_number=self.next_index,
                item_id=self._item_id,
                output_index=position,
                content_index=0,
                text=part.text,
                logprobs=self._logprobs,
            )
        )
        yield self._close_part(part, position)

    def _close_reasoning(self, item: ReasoningItem, position: int) -> Iterator[bytes]:
        part = cast("list[ReasoningText]", item.content)[0]
        yield self._frame(
            ReasoningTextDoneEvent(
                sequence_number=self.next_index,
                item_id=self._item_id,
                output_index=position,
                content_index=0,
                text=part.text,
            )
        )
        yield self._close_part(part, position)

    def _close_part(self, part: OutputTextPart | ReasoningText, position: int) -> bytes:
        return self._frame(
            ContentPartDoneEvent(
                sequence_number=self.next_index,
                item_id=self._item_id,
                output_index=position,
                content_index=0,
                part=part,
            )
        )

    def _close_custom_call(self, item: CustomToolCallItem, position: int) -> Iterator[bytes]:
        """Yield the whole input at once: while it is written, it is a piece of JSON that no client knows."""
        if item.input:
            yield self._frame(
                CustomToolCallInputDeltaEvent(
                    sequence_number=self.next_index, item_id=self._item_id, output_index=position, delta=item.input
                )
            )
        yield self._frame(
            CustomToolCallInputDoneEvent(
                sequence_number=self.next_index, item_id=self._item_id, output_index=position, input=item.input
            )
        )

    def _whole_item(self, status: ItemStatus) -> Item:
        item, text = self._item, "".join(self._pieces)
        if isinstance(item, MessageItem):
            return replace(item, content=[self._part(text, self._logprobs)], status=status)
        if isinstance(item, ReasoningItem):
            return replace(item, content=[ReasoningText(text)], status=status)
        if isinstance(item, CustomToolCallItem):
            return replace(item, input=_read_custom_input(text), status=status)
        return replace(cast("FunctionCallItem", item), arguments=text, status=status)

    def _part(self, text: str, logprobs: list[ChatTokenLogprob]) -> OutputTextPart:
        return OutputTextPart(text=text, logprobs=list(logprobs)) if self._with_logprobs else OutputTextPart(text=text)

    @property
    def _item_id(self) -> str:
        return str(self._item.id) if self._item else ""

    def _finish(
        self,
        status: Literal["completed", "incomplete", "failed"],
        usage: Usage | None,
        *,
        ended_at: float | None = None,
        error: ResponseErrorDetail | None = None,
    ) -> None:
        self._item = None
        self.has_ended = True
        self.response = replace(
            self.response,
            status=status,
            output=self._output,
            error=error,
            usage=ResponseUsage.from_engine(usage) if usage else None,
            completed_at=int(ended_at) if ended_at is not None and status == "completed" else None,
            incomplete_details=IncompleteDetails("max_output_tokens") if status == "incomplete" else None,
        )

    def _frame(self, event: Event) -> bytes:
        self.next_index += 1
        return encode_response_event(event)


def _read_custom_input(arguments: str) -> str:
    """Return the input of a custom tool's call. Arguments that were cut off give the text so far."""
    for end in ("", '"}', '\\"}'):
        try:
            value = json.loads(arguments + end)
        except ValueError:
            continue
        if isinstance(value, dict):
            return str(value.get(CUSTOM_INPUT, ""))
    return ""
