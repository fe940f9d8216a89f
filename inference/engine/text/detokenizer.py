"""Tokens to text as they come: half characters and possible stop sequences are held back."""

from collections.abc import Callable

REPLACEMENT = "\ufffd"
CHARACTER_BYTES = 4
WINDOW = 16  # tokens: more than the bytes that the end of a text can still be waiting for


class TextStream:
    """The text of one generation. The pieces that `push` and `flush` return join to the whole text.

    Bytes that are not yet a character are held back, and dropped if the generation ends with them. Text that may be
    the beginning of a stop sequence is held back; the sequence and what follows it never come out. In the text of the
    first `unwatched` tokens no stop sequence begins.

    length, released: characters so far, and how many of them came out.
    """

    def __init__(self, decode: Callable[[list[int]], str], stop: tuple[str, ...] = (), unwatched: int = 0) -> None:
        self._decode = decode
        self._stop = stop
        self._unwatched = unwatched
        # Only a window of tokens is decoded: the last released piece, for its context, and what came after it.
        self._window: list[int] = []
        self._context = 0
        self._decoded = 0
        self._broken = 0  # characters that are none, before the window's text
        self._held = ""
        self.length = 0
        self.released = 0
        self.stopped = False

    def push(self, token: int) -> str:
        """Takes the next token and returns the text that it releases. Sets `stopped` when a stop sequence is found."""
        text = self._new_text(token)
        self.length += len(text)
        if self._unwatched:
            self._unwatched -= 1
        elif self._stop:
            text = self._hold_back(text)
        self.released += len(text)
        return text

    def flush(self) -> str:
        """The text still held when a generation ends without a stop sequence."""
        text, self._held = self._held, ""
        # Tokens without any text count as come out with it.
        self.released = self.length + 1
        return text

    def _new_text(self, token: int) -> str:
        self._window.append(token)
        text = self._decode(self._window)
        whole = text.rstrip(REPLACEMENT)
        if new := whole[self._decoded :]:
            new, self._broken = REPLACEMENT * self._broken + new, 0
            if len(whole) == len(text):
                self._window = self._window[self._context :]
                self._context = len(self._window)
                self._decoded = len(self._decode(self._window))
                return new
        self._decoded = max(self._decoded, len(whole))
        if not new and not self._decode([token, token]):
            self._window.pop()  # special; a space that only the beginning drops has text as two
        elif len(self._window) - self._context > 2 * WINDOW:
            self._cut(text)
        return new

    def _cut(self, text: str) -> None:
        """Forgets the beginning of a window whose text will not be whole; what is broken in it is only counted."""
        open_from = max(self._decoded, len(text) - CHARACTER_BYTES)
        kept = self._window[-WINDOW:]
        again = self._decode(kept)
        if again.endswith(text[open_from:]):
            self._broken += open_from - self._decoded
            self._window, self._context = kept, 0
            self._decoded = len(again) - (len(text) - open_from)

    def _hold_back(self, new: str) -> str:
        text = self._held + new
        found = [place for place in (text.find(stop) for stop in self._stop) if place >= 0]
        if found:
            self.stopped, self._held = True, ""
            return text[: min(found)]
        keep = max((overlap(text, stop) for stop in self._stop), default=0)
        self._held = text[len(text) - keep :]
        return text[: len(text) - keep]


def overlap(text: str, stop: str) -> int:
    """How many characters at the end of `text` begin `stop`."""
    sizes = range(min(len(text), len(stop) - 1), 0, -1)
    return next((size for size in sizes if text.endswith(stop[:size])), 0)
