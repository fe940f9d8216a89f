"""Fields of clients of OpenAI, vLLM and llama.cpp: further names of constraints, and fields without effect."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from inference.engine import ConstraintKind, InvalidRequest, OutputConstraint
from inference.protocol.parameters import RepeatPenalty
from inference.protocol.response_format import MAX_PATTERN_LENGTH, choice_constraint, schema_constraint
from inference.protocol.sampling import ExtraSamplingParameters

MAX_CHOICES = 1000

Schema = dict[str, Any] | Annotated[str, Meta(max_length=MAX_PATTERN_LENGTH)]
SCHEMA_META = Meta(description="JSON schema that the text matches, or its text.")
Choices = Annotated[
    list[Annotated[str, Meta(min_length=1, max_length=MAX_PATTERN_LENGTH)]],
    Meta(
        min_length=1, max_length=MAX_CHOICES, description="Texts of which the text is one.", examples=[["oak", "brass"]]
    ),
]
Pattern = Annotated[str, Meta(max_length=MAX_PATTERN_LENGTH)]
GuidedRegex = Annotated[
    Pattern, Meta(description="Regular expression that the whole text matches.", examples=[" (oak|brass)\\."])
]
GuidedGrammar = Annotated[
    Pattern,
    Meta(description="Grammar in GBNF or Lark's syntax that the whole text matches.", examples=['root ::= "oak"']),
]
# Bookkeeping of clients, and hints to other servers' caches.
IGNORED_FIELDS = (
    "user",
    "metadata",
    "safety_identifier",
    "prompt_cache_key",
    "request_id",
    "cache_salt",
    "cache_prompt",
    "timings_per_token",
    "guided_decoding_backend",
)

IgnoredText = Annotated[str, Meta(description="Accepted without effect.", examples=["a1b2c3"])]
IgnoredFlag = Annotated[bool, Meta(description="Accepted without effect.", examples=[True])]


class StructuredOutputs(Struct, forbid_unknown_fields=True):
    """A constraint in vLLM's form. One field is set."""

    json: Annotated[Schema | None, SCHEMA_META] = None
    regex: GuidedRegex | None = None
    choice: Choices | None = None
    grammar: GuidedGrammar | None = None
    json_object: Annotated[bool, Meta(description="Whether the text is a JSON object.", examples=[True])] | None = None

    def constraints(self, prefix: str = "structured_outputs.") -> dict[str, OutputConstraint | None]:
        """Return the engine's constraints by the names of their fields. prefix: of the names."""

        def pattern(kind: ConstraintKind, name: str, value: str | None) -> OutputConstraint | None:
            return None if value is None else OutputConstraint(kind, value, prefix + name)

        return {
            f"{prefix}json": None if self.json is None else schema_constraint(self.json, f"{prefix}json"),
            f"{prefix}regex": pattern(ConstraintKind.REGEX, "regex", self.regex),
            f"{prefix}choice": None if self.choice is None else choice_constraint(self.choice, f"{prefix}choice"),
            f"{prefix}grammar": pattern(ConstraintKind.GRAMMAR, "grammar", self.grammar),
            f"{prefix}json_object": OutputConstraint(ConstraintKind.JSON_OBJECT) if self.json_object else None,
        }


class CompatibleParameters(ExtraSamplingParameters, kw_only=True):
    """Parameters by the names that vLLM and llama.cpp give them, and fields that change no output."""

    guided_json: Annotated[Schema | None, SCHEMA_META] = None
    guided_regex: GuidedRegex | None = None
    guided_choice: Choices | None = None
    guided_grammar: GuidedGrammar | None = None
    structured_outputs: Annotated[
        StructuredOutputs | None, Meta(description="Constraint of the text in vLLM's newer form.")
    ] = None
    json_schema: (
        Annotated[dict[str, Any], Meta(description="JSON schema that the text matches, as llama.cpp names it.")] | None
    ) = None
    repetition_penalty: (
        Annotated[RepeatPenalty, Meta(description="vLLM's name of `repeat_penalty`.", examples=[1.1])] | None
    ) = None

    user: IgnoredText | None = None
    metadata: (
        Annotated[dict[str, Any], Meta(description="Accepted without effect.", examples=[{"job": "7"}])] | None
    ) = None
    safety_identifier: IgnoredText | None = None
    prompt_cache_key: IgnoredText | None = None
    request_id: IgnoredText | None = None
    cache_salt: IgnoredText | None = None
    cache_prompt: IgnoredFlag | None = None
    timings_per_token: IgnoredFlag | None = None
    guided_decoding_backend: IgnoredText | None = None

    @property
    def ignored_fields(self) -> tuple[str, ...]:
        """Return the names of the fields without effect that the request has."""
        return tuple(name for name in IGNORED_FIELDS if getattr(self, name) is not None)

    def constraints(self) -> dict[str, OutputConstraint | None]:
        guided = StructuredOutputs(self.guided_json, self.guided_regex, self.guided_choice, self.guided_grammar)
        schema = self.json_schema
        return {
            **super().constraints(),
            **guided.constraints("guided_"),
            **(self.structured_outputs.constraints() if self.structured_outputs else {}),
            "json_schema": None if schema is None else schema_constraint(schema, "json_schema"),
        }

    def compatible_repeat_penalty(self, repeat_penalty: float | None) -> float | None:
        """Return the penalty by either name. Raise InvalidRequest if both are given."""
        if repeat_penalty is not None and self.repetition_penalty is not None:
            message = "`repetition_penalty` and `repeat_penalty` are the same: send one of them."
            raise InvalidRequest(message, field="repetition_penalty")
        return self.repetition_penalty if repeat_penalty is None else repeat_penalty
