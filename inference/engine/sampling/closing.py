"""Closing of structured output before its token limit: the shortest way to the end of a JSON text.

The way is found greedily on a copy of the grammar's state: close what is open, else an empty string or a 0, else the
longest token that the grammar allows. It may be longer than the shortest of all, and there may be none.
"""

import re
from copy import copy

import numpy as np
import torch
from llguidance import LLMatcher
from numpy.typing import NDArray
from torch import Tensor

# Spare tokens are those that are left beyond the way to the end; these are at most a quarter of the limit.
LEANING_TOKENS = 24  # with fewer, those that end a string become more likely
# With fewer, what can close closes: another member could have a long way to its end. Other values stay the model's.
STRUCTURE_TOKENS = 64
LAST_TOKENS = 4  # with fewer, the way is taken: one token can begin a character of four
MAX_LEANING = 6.0  # added to logits
CHECK_EVERY = 8  # tokens, or a share of those that are left, with more than twice STRUCTURE_TOKENS
CHECK_SHARE = 8
MAX_WAY = 256  # tokens; finding a longer one takes too long

FIXED_RANKS = {b'""': 900, b'"': 850, b",": 200, b":": 200, b"[]": 121, b"{}": 121, b"[": 120, b"{": 120, b"0": 61}
_CLOSING = re.compile(rb'"?[}\]]+\Z')
_ENDING = re.compile(rb'(?:[.!?]|[.!?]?"[}\]]*,?)\Z')
_LETTERS = re.compile(rb"[A-Za-z]+\Z")
_NUMBER = re.compile(rb"[-+.eE0-9]+\Z")


class ClosingTokens:
    """The tokens of a vocabulary, ordered by how soon they close a JSON text.

    after_end: those that change nothing after its end. endings: those that end a string. quotes: those with a quote.
    closers: those of brackets alone. numbers: those of parts of a number alone. digits: those that end with a digit.
    letter: one that is allowed within a string only.
    """

    def __init__(self, tokens: list[bytes], end_ids: list[int]) -> None:
        ranks = [_rank(token) for token in tokens]
        # Within a string a bracket is text.
        in_string = [
            2000 if token == b'"' else 0 if not token.strip(b"}]") else rank
            for token, rank in zip(tokens, ranks, strict=True)
        ]
        self._order: NDArray[np.int64] = np.argsort([-rank for rank in ranks], kind="stable")
        self._order_in_string: NDArray[np.int64] = np.argsort([-rank for rank in in_string], kind="stable")
        self.letter = tokens.index(b"z") if b"z" in tokens else 0
        self.end_ids = [token for token in end_ids if token < len(tokens)]
        self.after_end = torch.tensor([not token.strip(b" \t\r\n") for token in tokens])
        self.after_end[self.end_ids] = True
        self.endings = torch.tensor([bool(_ENDING.match(token)) for token in tokens])
        self.quotes = torch.tensor([b'"' in token for token in tokens])
        self.closers = torch.tensor([bool(token) and not token.strip(b"}]") for token in tokens])
        self.numbers = torch.tensor([bool(_NUMBER.match(token)) for token in tokens])
        self.digits = torch.tensor([token[-1:].isdigit() for token in tokens])

    def way(self, matcher: LLMatcher, limit: int) -> list[int] | None:
        """Return tokens that end the text from this state, without the end token: at most `limit`, or None."""
        state, way = matcher.deep_copy(), list[int]()
        while not state.is_accepting():
            if len(way) == min(limit, MAX_WAY):
                return None
            mask = np.frombuffer(state.compute_bitmask(), dtype=np.uint8)
            if state.is_error():
                return None
            allowed = np.unpackbits(mask, count=len(self._order), bitorder="little")
            order = self._order_in_string if allowed[self.letter] else self._order
            token = int(order[allowed[order].argmax()])
            if not allowed[token] or not state.consume_token(token):
                return None
            way.append(token)
        return way


class Closing:
    """Tokens that are left of the limit of one choice, and the way to the end of its text."""

    def __init__(self, tokens: ClosingTokens, max_tokens: int) -> None:
        self._tokens = tokens
        self._tokens_left = max_tokens - 1  # the last one is the end token
        self._leaning, self._structure = (min(count, max_tokens // 4) for count in (LEANING_TOKENS, STRUCTURE_TOKENS))
        self._check_at = max_tokens
        self._way: list[int] | None = None
        self._ahead: tuple[int, list[int]] | None = None  # the likeliest token, and the way after it
        self._is_in_string = False  # of the state that the way begins at
        self._is_after_digit = False

    def copy(self) -> "Closing":
        """Return the closing of another choice in the same state."""
        return copy(self)

    def advance(self, token: int) -> None:
        """Count a token of the text."""
        self._tokens_left -= 1
        self._is_after_digit = bool(self._tokens.digits[token])
        if self._ahead and self._ahead[0] == token:
            self._way, self._is_in_string = self._ahead[1], False
        elif self._way and self._way[0] == token:
            self._way, self._is_in_string = self._way[1:], False
        elif not self._is_in_string or self._tokens.quotes[token]:
            self._way = None
        self._ahead = None

    def lean(self, matcher: LLMatcher, scores: Tensor, allowed: Tensor) -> None:
        """Forbid tokens that run past the end or the limit, and prefer those that close near it. In place.

        scores, allowed: of the whole vocabulary.
        """
        if matcher.is_accepting() and self._has_ended(allowed):
            allowed[:] = False
            allowed[self._tokens.end_ids] = True
            return
        if self._tokens_left > self._check_at:
            return
        in_string = bool(allowed[self._tokens.letter])
        if self._way is None or (self._is_in_string and not in_string) or (self._way and not allowed[self._way[0]]):
            self._way = self._tokens.way(matcher, self._tokens_left)
        self._is_in_string = in_string
        spare = self._tokens_left - len(self._way) if self._way is not None else 0
        is_far = self._way is None or spare > 2 * STRUCTURE_TOKENS  # without a way, none fits or is found
        self._check_at = self._tokens_left - (max(CHECK_EVERY, self._tokens_left // CHECK_SHARE) if is_far else 1)
        if not self._way or spare >= max(self._structure, LAST_TOKENS + 1):
            return
        if spare <= LAST_TOKENS:
            _allow_only(allowed, [self._way[0]])
        elif not in_string:
            self._lean_to(self._way[0], matcher, scores, allowed)
        else:
            count = min(len(allowed), len(self._tokens.endings))
            endings = self._tokens.endings[:count]
            allowed[:count] &= endings | ~self._tokens.quotes[:count]
            scores[:count][endings] += MAX_LEANING * max(0, 1 - spare / self._leaning)

    def _lean_to(self, first: int, matcher: LLMatcher, scores: Tensor, allowed: Tensor) -> None:
        """Allow the first token of the way, and outside brackets the model's own that leave a way. In place."""
        tokens, favourite = self._tokens, int(scores.masked_fill(~allowed, -torch.inf).argmax())
        if tokens.numbers[favourite] and (self._is_after_digit or tokens.numbers[first]):
            count = min(len(allowed), len(tokens.numbers))
            allowed[:count] &= tokens.numbers[:count]  # they leave the way to the end as it is
            allowed[first] = True
            return
        if favourite != first and not tokens.closers[first]:
            state = matcher.deep_copy()
            way = tokens.way(state, self._tokens_left - 1) if state.consume_token(favourite) else None
            self._ahead = None if way is None else (favourite, way)
        _allow_only(allowed, [first, self._ahead[0]] if self._ahead else [first])

    def _has_ended(self, allowed: Tensor) -> bool:
        """Return whether only white space and the end may follow."""
        count = min(len(allowed), len(self._tokens.after_end))
        return not (allowed[:count] & ~self._tokens.after_end[:count]).any()


def _allow_only(allowed: Tensor, tokens: list[int]) -> None:
    allowed[:] = False
    allowed[tokens] = True


def _rank(token: bytes) -> int:
    """Return how soon a token closes a text, among those that a grammar allows."""
    if _CLOSING.match(token):
        return 1000 + len(token)
    if token in FIXED_RANKS:
        return FIXED_RANKS[token]
    if _LETTERS.match(token):
        return 300 + len(token)
    if token.isdigit():
        return 60 if len(token) == 1 else 10
    return 0 if not token.strip() else 1 if token[:1] in b"[{" else min(len(token), 9)
