"""Options and fields that Ollama's requests share."""

import json
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from inference.engine import ConstraintKind, InvalidRequest, OutputConstraint, SamplingParams
from inference.protocol.parameters import (
    FrequencyPenalty,
    LogprobsFlag,
    MinP,
    PresencePenalty,
    RepeatPenalty,
    Seed,
    StopSequence,
    StopSequences,
    Temperature,
    TopK,
    TopLogprobs,
    TopP,
)
from inference.protocol.parsing import drop_neutral_fields
from inference.protocol.sampling import requested_logprobs

LATEST = ":latest"
UNLIMITED = -1

# Ollama's defaults.
DEFAULT_TEMPERATURE = 0.8
DEFAULT_TOP_P = 0.9
DEFAULT_TOP_K = 40
DEFAULT_REPEAT_PENALTY = 1.1

# Options of loading, which `POST /models/{id}/load` sets here, and of computing.
IGNORED_OPTIONS = (
    "num_ctx",
    "num_batch",
    "num_gpu",
    "main_gpu",
    "low_vram",
    "numa",
    "num_thread",
    "num_keep",
    "use_mmap",
    "use_mlock",
    "vocab_only",
    "repeat_last_n",
)
# Options with effects that this server does not have, with their neutral values.
UNSUPPORTED_OPTIONS: Mapping[str, tuple[object, ...]] = {
    "embedding_only": (False,),
    "logits_all": (False,),
    "mirostat": (0,),
    "mirostat_eta": (0.1,),
    "mirostat_tau": (5,),
    "penalize_newline": (False,),
    "tfs_z": (1,),
    "typical_p": (1,),
}

OllamaModelName = Annotated[
    str,
    Meta(
        min_length=1,
        description="Id of the model, as `GET /api/tags` lists it; `:latest` may follow.",
        examples=["stoa-describer"],
    ),
]
KeepAlive = Annotated[
    Annotated[float, Meta(ge=-(2**31), le=2**31)] | str | None,
    Meta(description="Accepted without effect: operators load and unload models.", examples=["5m"]),
]
Format = Annotated[
    Literal["", "json"] | dict[str, Any] | None,
    Meta(description="Form of the text: `json` for a JSON object, or a JSON schema.", examples=["json"]),
]
_IGNORED_TEXT = "Accepted without effect: it is set when a model is loaded."
_IgnoredNumber = Annotated[int, Meta(ge=-1, le=2**31 - 1, description=_IGNORED_TEXT, examples=[4096])]
_IgnoredFlag = Annotated[bool, Meta(description=_IGNORED_TEXT, examples=[True])]


class Options(Struct, kw_only=True, forbid_unknown_fields=True):
    """Sampling options, with Ollama's defaults."""

    temperature: Temperature = DEFAULT_TEMPERATURE
    top_p: TopP = DEFAULT_TOP_P
    top_k: TopK = DEFAULT_TOP_K
    min_p: MinP = 0.0
    repeat_penalty: RepeatPenalty = DEFAULT_REPEAT_PENALTY
    presence_penalty: PresencePenalty = 0.0
    frequency_penalty: FrequencyPenalty = 0.0
    seed: Seed | None = None
    num_predict: Annotated[
        int,
        Meta(ge=-2, le=2**31 - 1, description="Maximum number of generated tokens; below 0 no limit.", examples=[128]),
    ] = UNLIMITED
    stop: Annotated[
        StopSequence | StopSequences | None,
        Meta(
            description="Sequences before which the generation ends. They are not part of the text.", examples=[["\n"]]
        ),
    ] = None
    num_ctx: _IgnoredNumber | None = None
    num_batch: _IgnoredNumber | None = None
    num_gpu: _IgnoredNumber | None = None
    main_gpu: _IgnoredNumber | None = None
    low_vram: _IgnoredFlag | None = None
    numa: _IgnoredFlag | None = None
    num_thread: _IgnoredNumber | None = None
    num_keep: _IgnoredNumber | None = None
    use_mmap: _IgnoredFlag | None = None
    use_mlock: _IgnoredFlag | None = None
    vocab_only: _IgnoredFlag | None = None
    repeat_last_n: _IgnoredNumber | None = None


class OllamaRequest(Struct, kw_only=True, forbid_unknown_fields=True):
    """The fields of every request to a model."""

    model: OllamaModelName
    options: Annotated[Options | None, Meta(description="Sampling options.")] = None
    keep_alive: KeepAlive = None

    @property
    def ignored_fields(self) -> tuple[str, ...]:
        """Return the names of the fields without effect that the request has."""
        names = [name for name in IGNORED_OPTIONS if self.options and getattr(self.options, name) is not None]
        return (*names, *(["keep_alive"] if self.keep_alive is not None else []))


class OllamaGenerationRequest(OllamaRequest, kw_only=True, forbid_unknown_fields=True):
    """The fields of requests that generate text."""

    stream: Annotated[
        bool, Meta(description="Whether to send the text in lines of JSON while it is generated.", examples=[False])
    ] = True
    format: Format = None
    think: Annotated[
        bool | Literal["low", "medium", "high"] | None,
        Meta(description="Whether, or how much, the model reasons first, as far as its template has it."),
    ] = None
    logprobs: LogprobsFlag | None = None
    top_logprobs: TopLogprobs | None = None

    def sampling(self) -> SamplingParams:
        """Return the engine's sampling parameters."""
        options = self.options or Options()
        return SamplingParams(
            max_tokens=self._max_tokens(options),
            temperature=options.temperature,
            top_p=options.top_p,
            top_k=options.top_k,
            min_p=options.min_p,
            repeat_penalty=options.repeat_penalty,
            presence_penalty=options.presence_penalty,
            frequency_penalty=options.frequency_penalty,
            seed=options.seed,
            stop=(options.stop,) if isinstance(options.stop, str) else tuple(options.stop or ()),
            logprobs=requested_logprobs(self.logprobs, self.top_logprobs),
            constraint=_constraint(self.format),
        )

    def reasoning(self) -> dict[str, Any]:
        """Return the fields of the engine's request that are about reasoning."""
        options = {"reasoning_effort": self.think} if isinstance(self.think, str) else {}
        thinking = None if self.think is None else bool(self.think)
        return {"template_options": options, "thinking": thinking, "separates_reasoning": self.think is not False}

    def _max_tokens(self, options: Options) -> int | None:
        if options.num_predict == 0:
            raise InvalidRequest(
                "`options.num_predict` must not be 0: send a positive number, or -1 for no limit.",
                field="options.num_predict",
            )
        return None if options.num_predict < 0 else options.num_predict


def _constraint(form: str | dict[str, Any] | None) -> OutputConstraint | None:
    if isinstance(form, dict):
        return OutputConstraint(ConstraintKind.JSON_SCHEMA, json.dumps(form), "format")
    return OutputConstraint(ConstraintKind.JSON_OBJECT) if form else None


def drop_neutral_options(value: Mapping[str, Any], unsupported: Mapping[str, tuple[object, ...]]) -> dict[str, Any]:
    """Return the fields and options without those that are not supported and have their neutral value.

    Raise InvalidRequest, which names the field, for another value.
    """
    fields = drop_neutral_fields(value, unsupported)
    if isinstance(fields.get("options"), dict):
        options = drop_neutral_fields(fields["options"], UNSUPPORTED_OPTIONS, prefix="options.")
        fields["options"] = {name: option for name, option in options.items() if option is not None}
    return fields
