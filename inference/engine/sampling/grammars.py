"""Structured output: constraints compiled to grammars, and the mask of allowed tokens at each step.

llguidance parses them. It allows the end token where the constraint allows the text to end.
"""

import json
import re
import threading
from collections.abc import Callable, Sequence
from functools import lru_cache

import numpy as np
import torch
from llguidance import LLExecutor, LLMatcher, LLParserLimits, LLTokenizer
from llguidance.gbnf_to_lark import gbnf_to_lark, is_lark_syntax
from torch import Tensor

from inference.engine.errors import InvalidRequest
from inference.engine.sampling import ConstraintKind, OutputConstraint
from inference.engine.sampling.closing import Closing, ClosingTokens
from inference.engine.sampling.grammar_limits import check_grammar
from inference.engine.sampling.multiple_of import check_multiples
from inference.engine.sampling.pattern_limits import check_patterns
from inference.engine.sampling.string_bounds import with_string_bounds

MAX_DEFINITION_LENGTH = 65_536  # characters
MAX_GBNF_LENGTH = 8_192  # characters: its conversion is quadratic in the number of rules
MAX_GRAMMAR_LENGTH = 4 * MAX_DEFINITION_LENGTH
MAX_LEXER_STATES = 50_000  # of 1 to 2 kB each
# Parsing is quadratic in the items of one row. A schema with 500 properties has 2,000 of them; an ambiguous grammar
# with as many takes seconds.
MAX_ROW_ITEMS = 2_000
MAX_GRAMMAR_ROW_ITEMS = 500
ROWS_PER_MASK = 10
LEXER_FUEL_PER_MASK = 50_000
CACHED_CONSTRAINTS = 16  # many requests have the same
# llguidance would compute all forced text at once: a{1000000} would block the whole step.
NO_FORCING = '\n%llguidance {"no_forcing": true}\n'
# A space, or a new line with its indentation. Without a bound, a model may fill all its tokens with white space.
JSON_OPTIONS = {"whitespace_pattern": r"\x20|\x0D?\x0A[\x20\x09]{0,20}"}
ERROR_PREFIX = re.compile(r"^at \d+\(\d+\): (failed to compile JSON schema: )?|^error: ")
PARAMETERS = {
    ConstraintKind.JSON_OBJECT: "response_format",
    ConstraintKind.JSON_SCHEMA: "response_format",
    ConstraintKind.REGEX: "regex",
    ConstraintKind.GRAMMAR: "grammar",
}


class TokenConstraint:
    """The constraint of one choice, advanced by each of its tokens.

    closing: ends a JSON text before the limit of tokens.
    """

    def __init__(self, matcher: LLMatcher, vocabulary: int, closing: Closing | None = None) -> None:
        self.matcher = matcher
        self.vocabulary = vocabulary
        self.closing = closing

    def accept(self, token: int) -> None:
        """Advance by a token. It fails if the token is not allowed."""
        self.matcher.consume_token(token)
        if self.closing:
            self.closing.advance(token)

    def lean(self, scores: Tensor, allowed: Tensor) -> None:
        """Lean to the end of the text near the limit of tokens. In place, for one row of the vocabulary."""
        if self.closing:
            self.closing.lean(self.matcher, scores, allowed)

    @property
    def complete(self) -> bool:
        """Return whether the text satisfies the constraint and nothing can follow."""
        return self.matcher.is_stopped() and not self.matcher.is_error()

    @property
    def failure(self) -> str | None:
        """Return why the constraint cannot be followed any more, for example because it grew too complex."""
        return _error_message(self.matcher) if self.matcher.is_error() else None

    def copy(self) -> "TokenConstraint":
        """Return a copy in the same state, for another choice."""
        closing = self.closing.copy() if self.closing else None
        return TokenConstraint(self.matcher.deep_copy(), self.vocabulary, closing)


class GrammarCompiler:
    """Compiled constraints of one model, cached. Thread-safe."""

    def __init__(self, *, tokenizer_json: Callable[[], str], eos_ids: frozenset[int]) -> None:
        self._tokenizer_json = tokenizer_json
        self._eos_ids = sorted(eos_ids)
        self._tokenizer: LLTokenizer | None = None
        self._closing_tokens: ClosingTokens | None = None
        self._lock = threading.Lock()
        self._compiled = lru_cache(CACHED_CONSTRAINTS)(self._compile)

    def compile(self, constraint: OutputConstraint, max_tokens: int) -> TokenConstraint:
        """Compile a constraint of a text of at most `max_tokens`. JSON ends before the limit if it can.

        Raise InvalidRequest, naming the parameter, if it is invalid, too large or unsatisfiable.
        """
        parameter = constraint.parameter or PARAMETERS[constraint.kind]
        length = len(constraint.definition)
        if length > MAX_DEFINITION_LENGTH:
            raise InvalidRequest(
                f"`{parameter}` must be at most {MAX_DEFINITION_LENGTH} characters, not {length}.", parameter=parameter
            )
        is_free = constraint.kind is ConstraintKind.GRAMMAR
        max_items = MAX_GRAMMAR_ROW_ITEMS if is_free else MAX_ROW_ITEMS
        grammar = _grammar(constraint, parameter, max_tokens)
        if is_free:
            check_grammar(grammar, parameter)
        compiled = self.compile_grammar(grammar, parameter, max_items)
        if constraint.kind in (ConstraintKind.JSON_OBJECT, ConstraintKind.JSON_SCHEMA):
            compiled.closing = Closing(self._tokens_of_closing(), max_tokens)
        return compiled

    def compile_grammar(self, grammar: str, parameter: str, max_items: int = MAX_ROW_ITEMS) -> TokenConstraint:
        """Compile a Lark grammar. Raise InvalidRequest as `compile` does.

        parameter: named in errors. max_items: the limit of items in one row of the parser.
        """
        if len(grammar) > MAX_GRAMMAR_LENGTH:
            raise InvalidRequest(
                f"`{parameter}` must be shorter: its grammar would have {len(grammar)} characters, and at most "
                f"{MAX_GRAMMAR_LENGTH} are allowed.",
                parameter=parameter,
            )
        return self._compiled(grammar, parameter, max_items).copy()

    def _compile(self, grammar: str, parameter: str, max_items: int) -> TokenConstraint:
        check_multiples(grammar, parameter)
        check_patterns(grammar, parameter)
        tokenizer = self._llguidance_tokenizer()
        limits = LLParserLimits(
            max_items_in_row=max_items,
            step_max_items=ROWS_PER_MASK * max_items,
            step_lexer_fuel=LEXER_FUEL_PER_MASK,
            max_lexer_states=MAX_LEXER_STATES,
            verbose_errors=False,
        )
        matcher = LLMatcher(tokenizer, grammar + NO_FORCING, log_level=0, limits=limits)
        if not matcher.is_error():
            # The first mask takes longest, and shows whether the constraint can be satisfied.
            mask = matcher.compute_bitmask()
            if max_items == MAX_GRAMMAR_ROW_ITEMS and not matcher.is_error():
                _require_step(matcher, mask, parameter)
        if matcher.is_error():
            raise _invalid(matcher, parameter)
        return TokenConstraint(matcher, tokenizer.vocab_size)

    def _llguidance_tokenizer(self) -> LLTokenizer:
        if not self._eos_ids:
            raise InvalidRequest("This model has no end token, which structured output needs. Use another model.")
        with self._lock:  # takes a second for a large vocabulary, so it is made at the first use
            if self._tokenizer is None:
                try:
                    self._tokenizer = LLTokenizer(self._tokenizer_json(), eos_token=self._eos_ids)
                except ValueError as error:
                    raise InvalidRequest("Structured output does not work with this model's tokenizer.") from error
            return self._tokenizer

    def _tokens_of_closing(self) -> ClosingTokens:
        tokenizer = self._llguidance_tokenizer()
        with self._lock:
            if self._closing_tokens is None:
                tokens = [tokenizer.decode_bytes([token]) for token in range(tokenizer.vocab_size)]
                self._closing_tokens = ClosingTokens(tokens, self._eos_ids)
            return self._closing_tokens


class TokenMasks:
    """Allowed tokens of many constraints, computed in threads."""

    def __init__(self) -> None:
        self._executor: LLExecutor | None = None

    def allowed(self, constraints: Sequence[TokenConstraint], vocabulary: int) -> Tensor:
        """Return True where a token may come next, [constraints, vocabulary]. Rows of failed ones are meaningless."""
        if self._executor is None:
            self._executor = LLExecutor()
        words = -(-constraints[0].vocabulary // 32)
        bits = np.zeros((len(constraints), words), dtype=np.int32)
        matchers = [(constraint.matcher, row) for row, constraint in enumerate(constraints)]
        self._executor.unsafe_compute_mask_ptr(matchers, bits.ctypes.data, words * 4, len(constraints))
        allowed = np.unpackbits(bits.view(np.uint8), axis=1, count=vocabulary, bitorder="little")
        return torch.from_numpy(allowed).bool()


def _require_step(matcher: LLMatcher, mask: bytes, parameter: str) -> None:
    """Raise InvalidRequest for a first row with too many items, which llguidance sees only after a token."""
    allowed = np.unpackbits(np.frombuffer(mask, dtype=np.uint8), bitorder="little").nonzero()[0]
    probe = matcher.deep_copy()
    if len(allowed) and not probe.is_stopped():
        probe.consume_token(int(allowed[0]))
    if probe.is_error():
        raise _invalid(probe, parameter)


def _invalid(matcher: LLMatcher, parameter: str) -> InvalidRequest:
    return InvalidRequest(f"`{parameter}` cannot be used: {_error_message(matcher)}", parameter=parameter)


def _grammar(constraint: OutputConstraint, parameter: str, max_tokens: int) -> str:
    definition = constraint.definition
    match constraint.kind:
        case ConstraintKind.JSON_OBJECT:
            return json_grammar({"type": "object"})
        case ConstraintKind.JSON_SCHEMA:
            return json_grammar(with_string_bounds(_schema(definition, parameter), max_tokens))
        case ConstraintKind.REGEX:
            grammar: str = json.loads(LLMatcher.grammar_from_regex(definition))["grammars"][0]["lark_grammar"]
            return grammar
        case ConstraintKind.GRAMMAR:
            is_gbnf = "::=" in definition and not is_lark_syntax(definition)
            return _lark_from_gbnf(definition, parameter) if is_gbnf else definition


def json_grammar(schema: dict[str, object], rule: str = "start") -> str:
    """Return a Lark rule for JSON that is valid against `schema`."""
    return f"{rule}: %json {json.dumps({'x-guidance': JSON_OPTIONS} | schema)}"


def _lark_from_gbnf(definition: str, parameter: str) -> str:
    if len(definition) > MAX_GBNF_LENGTH:
        raise InvalidRequest(
            f"`{parameter}` must be at most {MAX_GBNF_LENGTH} characters in GBNF, not {len(definition)}. Write it in "
            "Lark's syntax, or shorten it.",
            parameter=parameter,
        )
    try:
        return gbnf_to_lark(definition).removeprefix("%llguidance {}")
    except Exception as error:  # the converter raises any, for what is wrong in the grammar
        reasons = {RecursionError: "it is nested too deeply", IndexError: "it ends within an escape sequence"}
        reason = reasons.get(type(error)) or str(error)[:200]
        raise InvalidRequest(f"`{parameter}` cannot be used: {reason}", parameter=parameter) from error


def _schema(definition: str, parameter: str) -> dict[str, object]:
    try:
        schema = json.loads(definition)
    except (ValueError, RecursionError):
        schema = None
    if not isinstance(schema, dict):
        raise InvalidRequest(f"`{parameter}` must hold a JSON schema that is an object.", parameter=parameter)
    return schema


def _error_message(matcher: LLMatcher) -> str:
    """Return the line of llguidance's error that helps a client."""
    lines: list[str] = matcher.get_error().split("\n")
    if lines[0].startswith("NoExtension"):
        return "no text satisfies it"
    errors = [line for line in lines if line.startswith("error: ")] or lines
    return ERROR_PREFIX.sub("", errors[0])[:300]
