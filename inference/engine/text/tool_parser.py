"""Tool calls out of a text as it comes. The grammar has seen to it that calls are in their form."""

import secrets
from enum import Enum, auto

from inference.engine.outputs import ToolCallDelta
from inference.engine.text.detokenizer import overlap
from inference.engine.text.tool_calls import ToolForm

START = '{"name": "'


class _At(Enum):
    TEXT = auto()
    NAME = auto()
    ARGUMENTS = auto()
    BEHIND = auto()  # after a call: another one, or the end


class ToolParser:
    """Splits the text of one choice into what is said and what is called. `called`: a call is whole."""

    def __init__(self, form: ToolForm) -> None:
        self._opening = form.begin + START
        self._anywhere = bool(form.marker)
        self._before_arguments = form.opening("").removeprefix(START)
        self._at = _At.TEXT
        self._held = ""
        self._fresh = True  # nothing was said yet
        self._object = _ObjectEnd()
        self._calls = 0
        self.called = False

    def push(self, text: str) -> tuple[str, tuple[ToolCallDelta, ...]]:
        """Takes the next piece; returns what of it is text, and the pieces of calls that it brings."""
        self._held += text
        said = ""
        deltas: list[ToolCallDelta] = []
        if self._at is _At.TEXT:
            said = self._say()
        while self._at is not _At.TEXT and self._advance(deltas):
            pass
        return said, tuple(deltas)

    def finish(self) -> str:
        """The text that is still held when the generation ends."""
        if self._at is not _At.TEXT:
            return ""
        said, self._held = self._held, ""
        return said

    def _say(self) -> str:
        place = self._held.find(self._opening) if self._anywhere or self._fresh else -1
        if place >= 0 and (self._anywhere or place == 0):
            said, self._held = self._held[:place], self._held[place + len(self._opening) :]
            self._at = _At.NAME
            return said
        possible = self._anywhere or (self._fresh and self._opening.startswith(self._held))
        keep = overlap(self._held, self._opening) if possible else 0
        cut = len(self._held) - keep
        said, self._held = self._held[:cut], self._held[cut:]
        self._fresh = self._fresh and not said
        return said

    def _advance(self, deltas: list[ToolCallDelta]) -> bool:
        """Reads one part of a call, if it is whole. False: more text is needed."""
        index = self._calls - 1
        if self._at is _At.NAME:
            name, found, rest = self._held.partition(self._before_arguments)
            if found:
                deltas.append(ToolCallDelta(self._calls, f"call_{secrets.token_hex(12)}", name, ""))
                self._calls, self._held, self._at, self._object = self._calls + 1, rest, _At.ARGUMENTS, _ObjectEnd()
            return bool(found)
        if self._at is _At.ARGUMENTS:
            end = self._object.find(self._held)
            if self._held[:end]:
                deltas.append(ToolCallDelta(index, None, None, self._held[:end]))
            self._held = self._held[end:]
            if self._object.closed:
                self._at, self.called = _At.BEHIND, True
            return self._object.closed
        _, found, rest = self._held.partition(START)
        if found:
            self._held, self._at = rest, _At.NAME
        return bool(found)


class _ObjectEnd:
    """Finds where a JSON object ends, in pieces."""

    def __init__(self) -> None:
        self._depth = 0
        self._in_string = self._escaped = False
        self.closed = False

    def find(self, piece: str) -> int:
        """How much of the next piece belongs to the object. Sets `closed` when it ends there."""
        for place, letter in enumerate(piece):
            self._step(letter)
            if self.closed:
                return place + 1
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
