"""The streaming parser of tool calls. The grammar guarantees their syntax."""

import secrets
from enum import Enum, auto

from inference.engine.outputs import ToolCallDelta
from inference.engine.text.detokenizer import overlap
from inference.engine.text.tool_calls import ToolSyntax

START = '{"name": "'


class _ParserState(Enum):
    TEXT = auto()
    NAME = auto()
    ARGUMENTS = auto()
    AFTER_CALL = auto()  # another call or the end follows


class ToolParser:
    """Separation of one choice's text into content and tool calls. called: a call is complete."""

    def __init__(self, syntax: ToolSyntax) -> None:
        self._opening = syntax.begin + START
        self._may_follow_text = bool(syntax.marker)
        self._before_arguments = syntax.opening("").removeprefix(START)
        self._state = _ParserState.TEXT
        self._buffer = ""
        self._is_empty = True  # no content was returned yet
        self._object = _JsonObjectScanner()
        self._calls = 0
        self.called = False

    def push(self, text: str) -> tuple[str, tuple[ToolCallDelta, ...]]:
        """Parse the next piece of text. Return the content and the pieces of calls that are complete with it."""
        self._buffer += text
        content = ""
        deltas: list[ToolCallDelta] = []
        if self._state is _ParserState.TEXT:
            content = self._read_content()
        while self._state is not _ParserState.TEXT and self._read_call(deltas):
            pass
        return content, tuple(deltas)

    def finish(self, *, is_cut: bool) -> str:
        """Return the content that is still buffered when the generation ends.

        is_cut: by a limit, before its end. Otherwise what has begun as the first call is none: without a grammar, a
        model may write anything.
        """
        content, self._buffer = self._buffer, ""
        if self._state is _ParserState.NAME and not self._calls and not is_cut:
            return self._opening + content
        return content if self._state is _ParserState.TEXT else ""

    def _read_content(self) -> str:
        start = self._buffer.find(self._opening) if self._may_follow_text or self._is_empty else -1
        if start >= 0 and (self._may_follow_text or start == 0):
            content, self._buffer = self._buffer[:start], self._buffer[start + len(self._opening) :]
            self._state = _ParserState.NAME
            return content
        may_open = self._may_follow_text or (self._is_empty and self._opening.startswith(self._buffer))
        buffered = overlap(self._buffer, self._opening) if may_open else 0
        end = len(self._buffer) - buffered
        content, self._buffer = self._buffer[:end], self._buffer[end:]
        self._is_empty = self._is_empty and not content
        return content

    def _read_call(self, deltas: list[ToolCallDelta]) -> bool:
        """Read one part of a call. Return whether it was complete."""
        index = self._calls - 1
        if self._state is _ParserState.NAME:
            name, found, rest = self._buffer.partition(self._before_arguments)
            if found:
                deltas.append(ToolCallDelta(self._calls, f"call_{secrets.token_hex(12)}", name, ""))
                self._calls, self._buffer = self._calls + 1, rest
                self._state, self._object = _ParserState.ARGUMENTS, _JsonObjectScanner()
            return bool(found)
        if self._state is _ParserState.ARGUMENTS:
            end = self._object.scan(self._buffer)
            if self._buffer[:end]:
                deltas.append(ToolCallDelta(index, None, None, self._buffer[:end]))
            self._buffer = self._buffer[end:]
            if self._object.closed:
                self._state, self.called = _ParserState.AFTER_CALL, True
            return self._object.closed
        _, found, rest = self._buffer.partition(START)
        if found:
            self._buffer, self._state = rest, _ParserState.NAME
        return bool(found)


class _JsonObjectScanner:
    """A scanner for the end of a JSON object that arrives in pieces."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = self._escaped = False
        self.closed = False

    def scan(self, piece: str) -> int:
        """Return the length of the next piece's part that belongs to the object. Set `closed` if it ends there."""
        for index, letter in enumerate(piece):
            self._step(letter)
            if self.closed:
                return index + 1
        return len(piece)

    def _step(self, letter: str) -> None:
        if self._in_string:
            self._in_string = self._escaped or letter != '"'
            self._escaped = letter == "\\" and not self._escaped
        elif letter == '"':
            self._in_string = True
        elif letter in "{[":
            self._depth += 1
        elif letter in "}]":
            self._depth -= 1
            self.closed = self._depth == 0
