"""Separation of a text into reasoning and content. Models write their reasoning first, between `<think>` tags."""

from inference.engine.text.detokenizer import overlap

START = "<think>"
END = "</think>"


class ReasoningParser:
    """Separation of one choice's text, which arrives in pieces.

    The text is reasoning up to `</think>` if it begins with `<think>`, or if the prompt ends with that. Otherwise all
    of it is content. White space around the tags belongs to neither.
    """

    def __init__(self, *, is_open: bool) -> None:
        """Begin a text. is_open: the prompt ends with `<think>`."""
        self._is_inside = is_open
        self._may_start = not is_open
        self._drops_space = is_open
        self._buffer = ""
        self._length = 0
        self._content_start: int | None = None

    @property
    def content_start(self) -> int | None:
        """Return the number of characters before the content, tags included, or None while that is not known."""
        return self._content_start

    @property
    def reasons(self) -> bool:
        """Return whether the text is reasoning so far."""
        return self._is_inside

    def push(self, text: str) -> tuple[str, str]:
        """Return the content and the reasoning that are certain with the next piece of text."""
        self._buffer += text
        self._length += len(text)
        if self._may_start and not self._read_start():
            return "", ""
        reasoning = self._read_reasoning() if self._is_inside else ""
        return "" if self._is_inside else self._read_content(), reasoning

    def finish(self) -> tuple[str, str]:
        """Return the content and the reasoning that are still buffered when the generation ends."""
        rest, self._buffer = self._buffer, ""
        return ("", rest.rstrip()) if self._is_inside else (rest, "")

    def _read_start(self) -> bool:
        """Return whether it is known how the text begins."""
        beginning = self._buffer.lstrip()
        if len(beginning) < len(START) and START.startswith(beginning):
            return False
        self._may_start = False
        if beginning.startswith(START):
            self._is_inside = self._drops_space = True
            self._buffer = beginning[len(START) :]
        else:
            self._content_start = 0
        return True

    def _read_reasoning(self) -> str:
        self._drop_space()
        reasoning, found, rest = self._buffer.partition(END)
        if found:
            self._is_inside, self._drops_space, self._buffer = False, True, rest
            self._content_start = self._length - len(rest)
            return reasoning.rstrip()
        held = overlap(self._buffer, END)
        certain = self._buffer[: len(self._buffer) - held].rstrip()  # white space may precede the tag
        self._buffer = self._buffer[len(certain) :]
        return certain

    def _read_content(self) -> str:
        self._drop_space()
        content, self._buffer = self._buffer, ""
        return content

    def _drop_space(self) -> None:
        if self._drops_space:
            self._buffer = self._buffer.lstrip()
            self._drops_space = not self._buffer
