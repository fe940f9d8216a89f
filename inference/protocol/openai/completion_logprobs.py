"""Log probabilities in the form of OpenAI's completions: four arrays with one entry per token."""

from collections.abc import Iterable
from typing import Annotated

from msgspec import Meta, Struct

from inference.engine import TokenLogprob
from inference.protocol.logprobs import MIN_LOGPROB


class CompletionLogprobs(Struct):
    """Log probabilities of a text's tokens in order. Nothing predicts a prompt's first token, which has nulls."""

    tokens: Annotated[list[str], Meta(description="Texts of the tokens.", examples=[[" brushed", " steel"]])]
    token_logprobs: Annotated[
        list[float | None],
        Meta(description="Log probabilities; null for the first token of a prompt.", examples=[[-0.2, -0.31]]),
    ]
    top_logprobs: Annotated[
        list[dict[str, float] | None],
        Meta(description="Most probable tokens in each place, and the token itself, with their log probabilities."),
    ]
    text_offset: Annotated[
        list[int],
        Meta(description="Positions in the choice's text at which the tokens begin, in characters.", examples=[[0, 8]]),
    ]


class CompletionLogprobsBuilder:
    """Builds the log probabilities of one choice, whose text and tokens may come in pieces."""

    def __init__(self) -> None:
        self._offsets = TextOffsetTracker()

    def add(self, text: str, tokens: Iterable[TokenLogprob]) -> CompletionLogprobs:
        """Return the log probabilities of the next piece."""
        self._offsets.add_text(text)
        logprobs = CompletionLogprobs([], [], [], [])
        for token in tokens:
            logprobs.tokens.append(_name(token))
            logprobs.token_logprobs.append(None if token.logprob is None else max(token.logprob, MIN_LOGPROB))
            logprobs.top_logprobs.append(None if token.logprob is None else _top_logprobs(token))
            logprobs.text_offset.append(self._offsets.place_token(token.data))
        return logprobs


class TextOffsetTracker:
    """Finds the positions in a text at which its tokens begin.

    Some bytes of tokens are not in the text: control tokens, and a first space that a tokenizer adds. The end of a
    token that is held back comes with a later piece of the text.
    """

    def __init__(self) -> None:
        self._position = 0  # of the next token
        self._rest = ""  # the text from this position
        self._missing = 0  # characters of earlier tokens that have not come yet
        self._partial = b""  # tokens at this position that are no whole character together

    def add_text(self, text: str) -> None:
        self._rest += text[self._missing :]
        self._missing -= min(self._missing, len(text))

    def place_token(self, token: bytes) -> int:
        """Return the position at which the next token begins."""
        start = self._position
        for data in (self._partial + token, token, token.removeprefix(b" ")):
            text = _decode(data)
            if text and self._rest and (self._rest.startswith(text) or text.startswith(self._rest)):
                self._advance(len(text))
                return start
        self._partial += token
        if not _is_partial_character(self._partial):
            self._partial = b""
        return start

    def _advance(self, length: int) -> None:
        self._position += length
        self._missing = max(0, length - len(self._rest))
        self._rest, self._partial = self._rest[length:], b""


def _decode(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return ""


def _is_partial_character(data: bytes) -> bool:
    """Return whether the data is the beginning of a character."""
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data"
    return False


def _top_logprobs(token: TokenLogprob) -> dict[str, float]:
    """Return the most probable tokens and the token itself; of tokens with the same text, the most probable one."""
    logprobs: dict[str, float] = {}
    for other in (*token.top, token):
        logprob = MIN_LOGPROB if other.logprob is None else max(other.logprob, MIN_LOGPROB)
        logprobs.setdefault(_name(other), logprob)
    return logprobs


def _name(token: TokenLogprob) -> str:
    """Return the text of a token, or its bytes as OpenAI writes them if it is part of a character."""
    text = _decode(token.data)
    return text if text or not token.data else "bytes:" + "".join(f"\\x{byte:02x}" for byte in token.data)
