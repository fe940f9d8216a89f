"""Sampling parameters, declared once: type, default, bounds, description and example of each.

The engine's checks, the API schemas and the command line are made from `SAMPLING_PARAMETERS`. To add a parameter, add
a field to `SamplingParams` and use it in the sampler; a test fails while no output depends on it.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, get_args, get_type_hints

import msgspec

from inference.engine.errors import InvalidRequest

MAX_INT32 = 2**31 - 1
MAX_QUOTED_LENGTH = 40  # characters of a wrong value in an error message


@dataclass(frozen=True, kw_only=True)
class Bounds:
    """Inclusive limits of a number, or limits of a length; None is no limit. `above` is an exclusive minimum."""

    minimum: float | None = None
    above: float | None = None
    maximum: float | None = None
    min_length: int | None = None
    max_length: int | None = None

    def allow(self, value: Any) -> bool:
        """Return whether the value is within all limits. NaN is not."""
        return (
            (self.minimum is None or value >= self.minimum)
            and (self.above is None or value > self.above)
            and (self.maximum is None or value <= self.maximum)
            and (self.min_length is None or len(value) >= self.min_length)
            and (self.max_length is None or len(value) <= self.max_length)
        )

    def describe(self) -> str:
        """Return the limits of a number as words: "from 0 to 2"."""
        if self.above is not None:
            return f"above {self.above:g}" + ("" if self.maximum is None else f" and at most {self.maximum:g}")
        return f"from {self.minimum} to {self.maximum}"

    def meta(self, **texts: Any) -> msgspec.Meta:
        """Return the limits as msgspec enforces them. texts: further arguments of `Meta`."""
        limits = {
            "ge": self.minimum,
            "gt": self.above,
            "le": self.maximum,
            "min_length": self.min_length,
            "max_length": self.max_length,
        }
        make_meta: Any = msgspec.Meta
        meta: msgspec.Meta = make_meta(**{name: limit for name, limit in limits.items() if limit is not None}, **texts)
        return meta


@dataclass(frozen=True, kw_only=True)
class Declaration:
    """The annotation of a parameter in its struct. `items` limits each item of a collection, or each value of a map."""

    description: str
    example: Any
    bounds: Bounds = Bounds()
    items: Bounds = Bounds()


@dataclass(frozen=True, kw_only=True)
class Parameter(Declaration):
    """A declared parameter. `type` is the Python type without None."""

    name: str
    type: Any
    default: Any

    def allows(self, value: Any) -> bool:
        """Return whether the value is within the declared bounds."""
        if value is None:
            return self.default is None
        items = value.values() if isinstance(value, dict) else value if isinstance(value, tuple) else ()
        return self.bounds.allow(value) and all(map(self.items.allow, items))

    @property
    def expected(self) -> str:
        """Return the accepted values as words, which follow "must be" in error messages."""
        if self.type is bool:
            return "true or false"
        if self.type in (int, float):
            return f"{'an integer' if self.type is int else 'a number'} {self.bounds.describe()}"
        if self.type == tuple[str, ...]:
            lengths = f"{self.items.min_length} to {self.items.max_length} characters"
            return f"at most {self.bounds.max_length} strings of {lengths}"
        if self.type == tuple[int, ...]:
            return f"at most {self.bounds.max_length} token ids"
        if self.type == dict[int, float]:
            return f"at most {self.bounds.max_length} token ids with numbers {self.items.describe()}"
        return "a JSON schema, a regular expression or a grammar"

    def meta(self) -> msgspec.Meta:
        """Return bounds, description and example for an annotation that msgspec enforces: `Annotated[type, meta]`."""
        example = msgspec.json.decode(msgspec.json.encode(self.example))
        return self.bounds.meta(description=self.description, examples=[example])

    def item_meta(self) -> msgspec.Meta:
        """Return the bounds of one item, or of one value, as `meta` does."""
        return self.items.meta()

    def check(self, value: Any) -> None:
        """Raise InvalidRequest if the value is out of bounds."""
        if not self.allows(value):
            raise InvalidRequest(self.error_message(value), parameter=self.name)

    def error_message(self, value: Any) -> str:
        """Return the sentence that says what is expected in place of the value."""
        return f"`{self.name}` must be {self.expected}{_received(value)}."


def _received(value: Any) -> str:
    if isinstance(value, bool | str | None):
        return f", not {json.dumps(value)[:MAX_QUOTED_LENGTH]}"
    return f", not {repr(value)[:MAX_QUOTED_LENGTH]}" if isinstance(value, int | float) else ""


def declared_parameters(struct: type[msgspec.Struct]) -> dict[str, Parameter]:
    """Return the parameters of a struct by name: the fields that have a Declaration in their annotation."""
    fields = {field.name: field for field in msgspec.structs.fields(struct)}
    parameters = {}
    for name, hint in get_type_hints(struct, include_extras=True).items():
        for declaration in getattr(hint, "__metadata__", ()):
            if isinstance(declaration, Declaration):
                default = {} if fields[name].default is msgspec.NODEFAULT else fields[name].default
                parameters[name] = Parameter(
                    **vars(declaration), name=name, type=_without_none(hint.__origin__), default=default
                )
    return parameters


def _without_none(hint: Any) -> Any:
    args = get_args(hint)
    return args[0] if type(None) in args else hint


class ConstraintKind(StrEnum):
    """The kinds of structured output."""

    JSON_OBJECT = "json_object"
    JSON_SCHEMA = "json_schema"
    REGEX = "regex"
    GRAMMAR = "grammar"  # Lark, in llguidance's dialect, or GBNF


class OutputConstraint(msgspec.Struct, frozen=True):
    """A constraint that all generated text satisfies.

    definition: the JSON schema as text, the regex, or the grammar in Lark's syntax or llama.cpp's GBNF; "" for
        `json_object`.
    parameter: the client's name of the constraint, for errors. By default the native one.
    """

    kind: ConstraintKind = msgspec.field(name="form")
    definition: str = ""
    parameter: str | None = None


class SamplingParams(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Sampling parameters of one request. The defaults are neutral; each surface applies its own before the engine.

    The order of application is: penalties, `logit_bias`, constraint, temperature, top_k, top_p, min_p.
    """

    max_tokens: Annotated[
        int | None,
        Declaration(
            description="Maximum number of generated tokens. By default the rest of the model's context.",
            example=256,
            bounds=Bounds(minimum=1, maximum=MAX_INT32),
        ),
    ] = None
    min_tokens: Annotated[
        int,
        Declaration(
            description="Number of tokens before which no end token and no stop sequence ends the generation.",
            example=16,
            bounds=Bounds(minimum=0, maximum=MAX_INT32),
        ),
    ] = 0
    temperature: Annotated[
        float,
        Declaration(
            description="Divisor of the logits: higher values make the text more random. 0 is greedy decoding.",
            example=0.7,
            bounds=Bounds(minimum=0, maximum=2),
        ),
    ] = 1.0
    top_p: Annotated[
        float,
        Declaration(
            description="Nucleus sampling: sample from the smallest set of tokens whose probabilities add up to this. "
            "1 is off; 0 keeps the most probable token only.",
            example=0.9,
            bounds=Bounds(minimum=0, maximum=1),
        ),
    ] = 1.0
    top_k: Annotated[
        int,
        Declaration(
            description="Number of most probable tokens to sample from. 0 is off.",
            example=40,
            bounds=Bounds(minimum=0, maximum=1000),
        ),
    ] = 0
    min_p: Annotated[
        float,
        Declaration(
            description="Minimum probability of a token, relative to the most probable one. 0 is off.",
            example=0.05,
            bounds=Bounds(minimum=0, maximum=1),
        ),
    ] = 0.0
    repeat_penalty: Annotated[
        float,
        Declaration(
            description="Penalty on tokens of the prompt and of the output (CTRL, arXiv 1909.05858). 1 is off.",
            example=1.1,
            bounds=Bounds(above=0, maximum=2),
        ),
    ] = 1.0
    presence_penalty: Annotated[
        float,
        Declaration(
            description="Penalty on tokens that the output already contains, as in OpenAI's API. 0 is off.",
            example=0.5,
            bounds=Bounds(minimum=-2, maximum=2),
        ),
    ] = 0.0
    frequency_penalty: Annotated[
        float,
        Declaration(
            description="Penalty on tokens by their count in the output, as in OpenAI's API. 0 is off.",
            example=0.5,
            bounds=Bounds(minimum=-2, maximum=2),
        ),
    ] = 0.0
    logit_bias: Annotated[
        dict[int, float],
        Declaration(
            description="Token ids with numbers that are added to their logits.",
            example={100: -100.0},
            bounds=Bounds(max_length=1024),
            items=Bounds(minimum=-100, maximum=100),
        ),
    ] = {}
    seed: Annotated[
        int | None,
        Declaration(
            description="Seed of the random numbers: the same request with the same seed gives the same text, whatever "
            "else the server computes. By default random.",
            example=42,
            bounds=Bounds(minimum=-(2**63), maximum=2**63 - 1),
        ),
    ] = None
    stop: Annotated[
        tuple[str, ...],
        Declaration(
            description="Sequences before which the generation ends. They are not part of the text.",
            example=("\n",),
            bounds=Bounds(max_length=16),
            items=Bounds(min_length=1, max_length=256),
        ),
    ] = ()
    stop_token_ids: Annotated[
        tuple[int, ...],
        Declaration(
            description="Token ids that end the generation, beside the model's end tokens. They are not part of the "
            "text.",
            example=(100,),
            bounds=Bounds(max_length=128),
            items=Bounds(minimum=0, maximum=MAX_INT32),
        ),
    ] = ()
    ignore_eos: Annotated[
        bool,
        Declaration(description="Continue after the model's end token, until `max_tokens`.", example=True),
    ] = False
    logprobs: Annotated[
        int | None,
        Declaration(
            description="Number of most probable tokens to return with each generated token's log probability. "
            "By default no log probabilities are returned.",
            example=5,
            bounds=Bounds(minimum=0, maximum=20),
        ),
    ] = None
    constraint: Annotated[
        OutputConstraint | None,
        Declaration(
            description="Structured output: a JSON schema, regular expression or grammar that the text satisfies.",
            example=OutputConstraint(ConstraintKind.REGEX, "[0-9]{4}"),
        ),
    ] = None


SAMPLING_PARAMETERS: Mapping[str, Parameter] = declared_parameters(SamplingParams)


def check_sampling(params: SamplingParams, *, vocabulary_size: int) -> None:
    """Raise InvalidRequest for the first parameter that is out of bounds. vocabulary_size: upper bound of token ids."""
    for name, parameter in SAMPLING_PARAMETERS.items():
        parameter.check(getattr(params, name))
    if params.max_tokens is not None and params.min_tokens > params.max_tokens:
        raise InvalidRequest(
            f"`min_tokens` must be at most `max_tokens` ({params.max_tokens}), not {params.min_tokens}.",
            parameter="min_tokens",
        )
    for token in params.logit_bias:
        if not 0 <= token < vocabulary_size:
            raise InvalidRequest(
                f"`logit_bias` must be keyed by token ids from 0 to {vocabulary_size - 1}, not {token}.",
                parameter="logit_bias",
            )
