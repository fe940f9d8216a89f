"""Log probabilities in the form of OpenAI's older completions: four arrays, one entry a token."""

from collections.abc import Iterable

from msgspec import Struct

from inference.engine import TokenLogprob
from inference.protocol.logprobs import MIN_LOGPROB


class CompletionLogprobs(Struct):
    """Of the text's tokens, in their order. `text_offset`: where in the choice's text each begins, in characters.

    A prompt's first token has null for both: nothing predicts it. `top_logprobs` has the token itself beside the best.
    """

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class CompletionLogprobsBuilder:
    """Forms the log probabilities of one choice, which may come in pieces: of each, its text and its tokens."""

    def __init__(self) -> None:
        self._offsets = TextOffsetTracker()

    def write(self, text: str, told: Iterable[TokenLogprob]) -> CompletionLogprobs:
        self._offsets.take(text)
        formed = CompletionLogprobs([], [], [], [])
        for one in told:
            formed.tokens.append(_name(one))
            formed.token_logprobs.append(None if one.logprob is None else max(one.logprob, MIN_LOGPROB))
            formed.top_logprobs.append(None if one.logprob is None else _best(one))
            formed.text_offset.append(self._offsets.place(one.data))
        return formed


class TextOffsetTracker:
    """Finds where in a text its tokens begin. Not all of them are in it: control tokens are not, nor is a first space
    that a tokenizer adds, and of a token whose end is held back only the beginning is there yet."""

    def __init__(self) -> None:
        self._at = 0  # where the next token begins
        self._rest = ""  # the text from there on
        self._owed = 0  # characters of tokens before it that have not come yet
        self._half = b""  # tokens there that are no whole character together

    def take(self, text: str) -> None:
        self._rest += text[self._owed :]
        self._owed -= min(self._owed, len(text))

    def place(self, token: bytes) -> int:
        start = self._at
        for data in (self._half + token, token, token.removeprefix(b" ")):
            text = _decoded(data)
            if text and self._rest and (self._rest.startswith(text) or text.startswith(self._rest)):
                self._advance(len(text))
                return start
        self._half += token
        if not _may_go_on(self._half):
            self._half = b""
        return start

    def _advance(self, length: int) -> None:
        self._at += length
        self._owed = max(0, length - len(self._rest))
        self._rest, self._half = self._rest[length:], b""


def _decoded(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return ""


def _may_go_on(data: bytes) -> bool:
    """Whether it is the beginning of a character."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return False


def _best(one: TokenLogprob) -> dict[str, float]:
    """The best ones and the token itself; of tokens with the same text, the likeliest."""
    best: dict[str, float] = {}
    for other in (*one.top, one):
        best.setdefault(_name(other), max(MIN_LOGPROB if other.logprob is None else other.logprob, MIN_LOGPROB))
    return best


def _name(one: TokenLogprob) -> str:
    """Its text; of half a character its bytes, as OpenAI writes them."""
    text = _decoded(one.data)
    return text if text or not one.data else "bytes:" + "".join(f"\\x{byte:02x}" for byte in one.data)
