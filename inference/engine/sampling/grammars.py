"""Structured output: a form is compiled when its request comes, and at each step only tokens that keep to it are left.

llguidance does the work. Its grammars end a text themselves: the end token is allowed where the form may end.
"""

import json
import re
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import torch
from llguidance import LLExecutor, LLMatcher, LLParserLimits, LLTokenizer
from torch import Tensor

from inference.engine.errors import InvalidRequest
from inference.engine.sampling import ConstraintKind, OutputConstraint
from inference.engine.sampling.multiple_of import check_multiples

MAX_DEFINITION = 65_536  # characters
MAX_GRAMMAR = 4 * MAX_DEFINITION
MAX_STATES = 50_000  # of the lexer, at one to two kilobytes each
# Parsing takes time as the square of what may be at one place. A schema with 500 properties has 2,000 items there; a
# grammar that can be read in many ways takes seconds with so many.
MAX_ITEMS = 2_000
MAX_GRAMMAR_ITEMS = 500
ITEMS_A_MASK = 10  # times as many
LEXER_FUEL = 50_000  # a mask
COMPILED = 16  # forms that are kept, since many requests have the same
# Text that can only go on in one way would be walked to its end at once: a{1000000} would hold everybody up.
NO_FORCING = '\n%llguidance {"no_forcing": true}\n'
# A space, or a new line and what indents it. Without a bound, a model may fill all its tokens with white space.
JSON_OPTIONS = {"whitespace_pattern": r"\x20|\x0D?\x0A[\x20\x09]{0,20}"}
WHERE = re.compile(r"^at \d+\(\d+\): (failed to compile JSON schema: )?|^error: ")
PARAMETERS = {
    ConstraintKind.JSON_OBJECT: "response_format",
    ConstraintKind.JSON_SCHEMA: "response_format",
    ConstraintKind.REGEX: "regex",
    ConstraintKind.GRAMMAR: "grammar",
}


class TokenConstraint:
    """What one choice may write next. Knows the tokens that it has written so far."""

    def __init__(self, matcher: LLMatcher, vocabulary: int) -> None:
        self.matcher = matcher
        self.vocabulary = vocabulary

    def accept(self, token: int) -> None:
        """Takes the next token. One that the form does not allow makes it fail."""
        self.matcher.consume_token(token)

    @property
    def complete(self) -> bool:
        """Nothing can follow."""
        return self.matcher.is_stopped() and not self.matcher.is_error()

    @property
    def failure(self) -> str | None:
        """Why nothing can be said any more about what may follow: the form grew too complex on the way."""
        return _reason(self.matcher) if self.matcher.is_error() else None

    def copy(self) -> "TokenConstraint":
        """One for another choice, as this one stands."""
        return TokenConstraint(self.matcher.deep_copy(), self.vocabulary)


class Grammars:
    """Compiles forms for one model. Safe to use from many threads at once."""

    def __init__(self, *, tokenizer_json: Callable[[], str], eos_ids: frozenset[int]) -> None:
        self._tokenizer_json = tokenizer_json
        self._eos_ids = sorted(eos_ids)
        self._tokenizer: LLTokenizer | None = None
        self._lock = threading.Lock()
        self._compiled = lru_cache(COMPILED)(self._compile)

    def compile(self, constraint: OutputConstraint) -> TokenConstraint:
        """Raises InvalidRequest, naming the parameter, when the form is broken, too large, or nothing can have it."""
        parameter = PARAMETERS[constraint.kind]
        if len(constraint.definition) > MAX_DEFINITION:
            raise InvalidRequest(f"`{parameter}` must be at most {MAX_DEFINITION} characters.", parameter=parameter)
        return self.compile_grammar(_grammar(constraint), parameter)

    def compile_grammar(self, grammar: str, parameter: str) -> TokenConstraint:
        """The same for a Lark grammar of our own making."""
        if len(grammar) > MAX_GRAMMAR:
            raise InvalidRequest(f"`{parameter}` must be shorter: it makes a grammar too large.", parameter=parameter)
        return self._compiled(grammar, parameter).copy()

    def _compile(self, grammar: str, parameter: str) -> TokenConstraint:
        check_multiples(grammar, parameter)
        tokenizer = self._prepared()
        items = MAX_GRAMMAR_ITEMS if parameter == PARAMETERS[ConstraintKind.GRAMMAR] else MAX_ITEMS
        limits = LLParserLimits(
            max_items_in_row=items,
            step_max_items=ITEMS_A_MASK * items,
            step_lexer_fuel=LEXER_FUEL,
            max_lexer_states=MAX_STATES,
            verbose_errors=False,
        )
        matcher = LLMatcher(tokenizer, grammar + NO_FORCING, log_level=0, limits=limits)
        if not matcher.is_error():
            # The first step is the dearest, and shows a form that nothing can have.
            matcher.compute_bitmask()
        if matcher.is_error():
            raise InvalidRequest(f"`{parameter}` cannot be used: {_reason(matcher)}", parameter=parameter)
        return TokenConstraint(matcher, tokenizer.vocab_size)

    def _prepared(self) -> LLTokenizer:
        if not self._eos_ids:
            raise InvalidRequest("This model has no end token, which structured output needs. Use another model.")
        with self._lock:  # takes a second for a large vocabulary, so the first to need it waits for it
            if self._tokenizer is None:
                try:
                    self._tokenizer = LLTokenizer(self._tokenizer_json(), eos_token=self._eos_ids)
                except ValueError as error:
                    raise InvalidRequest("Structured output does not work with this model's tokenizer.") from error
            return self._tokenizer


class Masks:
    """Fills in what many constraints allow, in threads."""

    def __init__(self) -> None:
        self._executor: LLExecutor | None = None

    def allowed(self, constraints: Sequence[TokenConstraint], vocabulary: int) -> Tensor:
        """True where a token may come next, [constraints, vocabulary]. A row of one that has failed means nothing."""
        if self._executor is None:
            self._executor = LLExecutor()
        words = -(-constraints[0].vocabulary // 32)
        bits = np.zeros((len(constraints), words), dtype=np.int32)
        matchers = [(constraint.matcher, row) for row, constraint in enumerate(constraints)]
        self._executor.unsafe_compute_mask_ptr(matchers, bits.ctypes.data, words * 4, len(constraints))
        allowed = np.unpackbits(bits.view(np.uint8), axis=1, count=vocabulary, bitorder="little")
        return torch.from_numpy(allowed).bool()


def _grammar(constraint: OutputConstraint) -> str:
    definition = constraint.definition
    match constraint.kind:
        case ConstraintKind.JSON_OBJECT:
            return json_grammar({"type": "object"})
        case ConstraintKind.JSON_SCHEMA:
            return json_grammar(_schema(definition))
        case ConstraintKind.REGEX:
            grammar: str = json.loads(LLMatcher.grammar_from_regex(definition))["grammars"][0]["lark_grammar"]
            return grammar
        case ConstraintKind.GRAMMAR:
            return definition


def json_grammar(schema: dict[str, object], rule: str = "start") -> str:
    """A Lark rule for JSON that is valid against `schema`."""
    return f"{rule}: %json {json.dumps({'x-guidance': JSON_OPTIONS} | schema)}"


def _schema(definition: str) -> dict[str, object]:
    try:
        schema = json.loads(definition)
    except (ValueError, RecursionError):
        schema = None
    if not isinstance(schema, dict):
        message = "`response_format` must hold a JSON schema that is an object."
        raise InvalidRequest(message, parameter="response_format")
    return schema


def _reason(matcher: LLMatcher) -> str:
    """What a person can do something with, of what llguidance says."""
    lines: list[str] = matcher.get_error().split("\n")
    if lines[0].startswith("NoExtension"):
        return "no text has this form"
    told = [line for line in lines if line.startswith("error: ")] or lines
    return WHERE.sub("", told[0])[:300]
