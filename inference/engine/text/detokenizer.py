"""The streaming detokenizer: tokens to text, with partial characters and possible stop sequences held back."""

from collections.abc import Callable

REPLACEMENT = "\ufffd"
MAX_CHARACTER_BYTES = 4
WINDOW_TOKENS = 16  # more than the bytes of an incomplete character


class TextStream:
    """The text of one choice. The pieces that `push` and `flush` return join to the whole text.

    An incomplete character is held back, and dropped at the end. A possible beginning of a stop sequence is held back;
    the sequence and all text after it are never returned. The first `unstoppable` tokens start no stop sequence.

    length, released: characters so far, and characters returned.
    stop_sequence: the stop sequence that was found.
    """

    def __init__(self, decode: Callable[[list[int]], str], stop: tuple[str, ...] = (), unstoppable: int = 0) -> None:
        self._decode = decode
        self._stop = stop
        self._unstoppable = unstoppable
        # Only a window of tokens is decoded: the last released piece, for its context, and the tokens after it.
        self._window: list[int] = []
        self._context = 0
        self._decoded = 0
        self._invalid = 0  # replacement characters before the window's text
        self._held_back = ""
        self.length = 0
        self.released = 0
        self.stop_sequence: str | None = None

    @property
    def stopped(self) -> bool:
        return self.stop_sequence is not None

    def push(self, token: int) -> str:
        """Return the text that the next token releases. Set `stop_sequence` if one is found."""
        text = self._new_text(token)
        self.length += len(text)
        if self._unstoppable:
            self._unstoppable -= 1
        elif self._stop:
            text = self._hold_back(text)
        self.released += len(text)
        return text

    def flush(self) -> str:
        """Return the text held back when a generation ends without a stop sequence."""
        text, self._held_back = self._held_back, ""
        # Tokens without text at the end count as released too.
        self.released = self.length + 1
        return text

    def _new_text(self, token: int) -> str:
        self._window.append(token)
        text = self._decode(self._window)
        valid = text.rstrip(REPLACEMENT)
        if new := valid[self._decoded :]:
            new, self._invalid = REPLACEMENT * self._invalid + new, 0
            if len(valid) == len(text):
                self._window = self._window[self._context :]
                self._context = len(self._window)
                self._decoded = len(self._decode(self._window))
                return new
        self._decoded = max(self._decoded, len(valid))
        if not new and not self._decode([token, token]):
            self._window.pop()  # a special token; two of a space that only the start of a text drops have text
        elif len(self._window) - self._context > 2 * WINDOW_TOKENS:
            self._shorten_window(text)
        return new

    def _shorten_window(self, text: str) -> None:
        """Drop the beginning of a window whose characters stay incomplete. They are only counted."""
        open_from = max(self._decoded, len(text) - MAX_CHARACTER_BYTES)
        window = self._window[-WINDOW_TOKENS:]
        window_text = self._decode(window)
        if window_text.endswith(text[open_from:]):
            self._invalid += open_from - self._decoded
            self._window, self._context = window, 0
            self._decoded = len(window_text) - (len(text) - open_from)

    def _hold_back(self, new: str) -> str:
        text = self._held_back + new
        starts = [(start, stop) for stop in self._stop if (start := text.find(stop)) >= 0]
        if starts:
            start, self.stop_sequence = min(starts)
            self._held_back = ""
            return text[:start]
        held = max((overlap(text, stop) for stop in self._stop), default=0)
        self._held_back = text[len(text) - held :]
        return text[: len(text) - held]


def overlap(text: str, stop: str) -> int:
    """Return how many characters at the end of `text` begin `stop`."""
    sizes = range(min(len(text), len(stop) - 1), 0, -1)
    return next((size for size in sizes if text.endswith(stop[:size])), 0)
