"""The routes that engines' servers have for a completion: requests of a sequence, and tokens in the events of a stream.

Prompts are sent as token ids and tokens come back as ids, so that templates, stop sequences, tool calls and reasoning
are ours for every engine.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import msgspec

from inference.engine.external.kinds import EngineKind
from inference.engine.sampling import OutputConstraint, SamplingParams
from inference.engine.sampling.sampler import SampledToken

Form = TypeVar("Form", bound="_Event")

ANY_OBJECT = {"type": "object"}


class InvalidEvent(Exception):
    """An event that is not of the engine's documented form, or reports an error. The message quotes nothing."""


@dataclass(frozen=True)
class StreamEvent:
    """Tokens of an event. cached_tokens: of the prompt, once known.

    ended: why the engine ends the sequence here, `stop` or `length` or another of its reasons.
    text: of the event, from an engine that sends only the last token of a character.
    total: tokens of the sequence so far, from an engine whose events may repeat earlier ones.
    """

    tokens: list[SampledToken]
    ended: str | None = None
    cached_tokens: int | None = None
    text: str = ""
    total: int | None = None


@dataclass(frozen=True)
class Prompt:
    """The part of a sequence that is sent: prompt and tokens so far, and how many may follow at most and at least.

    slot: its place, which one sequence has at a time. salt: differs between users, who must not share cached prefixes.
    reuses_slot: the last sequence in this slot was of the same user.
    """

    ids: list[int]
    max_tokens: int
    min_tokens: int
    sampling: SamplingParams
    slot: int
    salt: str
    reuses_slot: bool


class Dialect(Protocol):
    """The form of an engine's completions."""

    path: str

    def request(self, prompt: Prompt) -> dict[str, Any]: ...
    def parse(self, data: bytes) -> StreamEvent: ...


class _Event(msgspec.Struct):
    error: Any = None


class _VllmChoice(msgspec.Struct):
    token_ids: list[int] = []
    logprobs: dict[str, Any] | None = None
    finish_reason: str | None = None


class _PromptDetails(msgspec.Struct):
    cached_tokens: int | None = None


class _Usage(msgspec.Struct):
    prompt_tokens_details: _PromptDetails | None = None


class _Completion(_Event):
    choices: list[_VllmChoice] = []
    usage: _Usage | None = None


class VllmDialect:
    """Completions of vLLM: OpenAI's route with its extensions for token ids."""

    path = "/v1/completions"

    def request(self, prompt: Prompt) -> dict[str, Any]:
        sampling = prompt.sampling
        return {
            "model": "model",
            "prompt": prompt.ids,
            "max_tokens": prompt.max_tokens,
            "min_tokens": prompt.min_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p or 1e-6,
            "top_k": sampling.top_k,
            "min_p": sampling.min_p,
            "repetition_penalty": sampling.repeat_penalty,
            "presence_penalty": sampling.presence_penalty,
            "frequency_penalty": sampling.frequency_penalty,
            "stop_token_ids": list(sampling.stop_token_ids),
            "ignore_eos": sampling.ignore_eos,
            "logprobs": sampling.logprobs,
            "return_token_ids": True,
            "return_tokens_as_token_ids": True,
            "skip_special_tokens": False,
            "stream": True,
            "stream_options": {"include_usage": True},
            "cache_salt": prompt.salt,
            **({"seed": sampling.seed % 2**63} if sampling.seed is not None else {}),
            **({"logit_bias": _by_text(sampling.logit_bias)} if sampling.logit_bias else {}),
            **({"structured_outputs": _structured(sampling.constraint)} if sampling.constraint else {}),
        }

    def parse(self, data: bytes) -> StreamEvent:
        event = _decode(data, _Completion)
        details = event.usage.prompt_tokens_details if event.usage else None
        cached = details.cached_tokens if details else None
        if not event.choices:
            return StreamEvent([], cached_tokens=cached)
        choice = event.choices[0]
        return StreamEvent(_with_logprobs(choice), choice.finish_reason, cached)


class _LlamaTop(msgspec.Struct):
    id: int
    logprob: float | None = None
    top_logprobs: list["_LlamaTop"] = []


class _LlamaTimings(msgspec.Struct):
    cache_n: int | None = None


class _LlamaEvent(_Event):
    content: str = ""
    tokens: list[int] = []
    stop: bool = False
    stop_type: str = ""
    timings: _LlamaTimings | None = None
    completion_probabilities: list[_LlamaTop] = []


class LlamaCppDialect:
    """Completions of llama.cpp's server: its own route, which takes and returns token ids."""

    path = "/completion"

    def request(self, prompt: Prompt) -> dict[str, Any]:
        sampling = prompt.sampling
        bias = [[token, value] for token, value in sampling.logit_bias.items()]
        return {
            "prompt": prompt.ids,
            "n_predict": prompt.max_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "top_k": sampling.top_k,
            "min_p": sampling.min_p,
            "typical_p": 1.0,
            "repeat_penalty": sampling.repeat_penalty,
            "repeat_last_n": len(prompt.ids) + prompt.max_tokens,  # all
            "presence_penalty": sampling.presence_penalty,
            "frequency_penalty": sampling.frequency_penalty,
            "samplers": ["penalties", "top_k", "top_p", "min_p", "temperature"],
            "seed": -1 if sampling.seed is None else sampling.seed % (2**32 - 1),
            "ignore_eos": sampling.ignore_eos,
            "n_probs": 0 if sampling.logprobs is None else max(1, sampling.logprobs),
            "return_tokens": True,
            "id_slot": prompt.slot,
            "cache_prompt": prompt.reuses_slot,
            "stream": True,
            **({"logit_bias": bias} if bias else {}),
            **({"json_schema": _schema(sampling.constraint)} if sampling.constraint else {}),
        }

    def parse(self, data: bytes) -> StreamEvent:
        event = _decode(data, _LlamaEvent)
        tokens = [SampledToken(token) for token in ([] if event.stop else event.tokens)]
        for index, found in enumerate(event.completion_probabilities[: len(tokens)]):
            top = tuple((one.id, one.logprob or 0.0) for one in found.top_logprobs)
            tokens[index] = SampledToken(tokens[index].token, found.logprob, top)
        ended = {"limit": "length"}.get(event.stop_type, "stop") if event.stop else None
        cached = event.timings.cache_n if event.timings else None
        return StreamEvent(tokens, ended, cached, text=event.content)


class _SglangEnd(msgspec.Struct):
    type: str


class _SglangMeta(msgspec.Struct):
    finish_reason: _SglangEnd | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    output_token_logprobs: list[Any] = []
    output_top_logprobs: list[Any] = []


class _SglangEvent(_Event):
    output_ids: list[int] = []
    meta_info: _SglangMeta = msgspec.field(default_factory=_SglangMeta)


class SglangDialect:
    """Completions of SGLang: its own route, whose events have all tokens so far, or those since the last event."""

    path = "/generate"

    def request(self, prompt: Prompt) -> dict[str, Any]:
        sampling, constraint = prompt.sampling, prompt.sampling.constraint
        parameters: dict[str, Any] = {
            "max_new_tokens": prompt.max_tokens,
            "min_new_tokens": prompt.min_tokens,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p or 1e-6,
            "top_k": sampling.top_k or -1,
            "min_p": sampling.min_p,
            "repetition_penalty": sampling.repeat_penalty,
            "presence_penalty": sampling.presence_penalty,
            "frequency_penalty": sampling.frequency_penalty,
            "stop_token_ids": list(sampling.stop_token_ids),
            "ignore_eos": sampling.ignore_eos,
            "skip_special_tokens": False,
        }
        if sampling.seed is not None:
            parameters["sampling_seed"] = sampling.seed % 2**31
        if sampling.logit_bias:
            parameters["logit_bias"] = _by_text(sampling.logit_bias)
        if constraint:
            parameters |= {"regex" if constraint.kind == "regex" else "json_schema": constraint.definition}
        return {
            "input_ids": prompt.ids,
            "sampling_params": parameters,
            "stream": True,
            "return_logprob": sampling.logprobs is not None,
            "top_logprobs_num": sampling.logprobs or 0,
            "extra_key": prompt.salt,
        }

    def parse(self, data: bytes) -> StreamEvent:
        event = _decode(data, _SglangEvent)
        meta = event.meta_info
        tokens = [SampledToken(token) for token in event.output_ids]
        try:
            chosen = meta.output_token_logprobs[-len(tokens) :] if tokens else []
            ranked = meta.output_top_logprobs[-len(tokens) :] if tokens else []
            for place in range(-len(chosen), 0):  # the last ones are those of the last tokens
                top = tuple((int(other[1]), float(other[0])) for other in (ranked[place] if ranked else []))
                tokens[place] = SampledToken(tokens[place].token, float(chosen[place][0]), top)
        except (IndexError, TypeError, ValueError) as error:
            raise InvalidEvent("log probabilities of an unknown form") from error
        ended = meta.finish_reason.type if meta.finish_reason else None
        return StreamEvent(tokens, ended, meta.cached_tokens, total=meta.completion_tokens)


def dialect_of(kind: EngineKind) -> Dialect:
    """Return the form of an engine's completions."""
    dialects: Mapping[str, Dialect] = {
        "vllm": VllmDialect(),
        "llama.cpp": LlamaCppDialect(),
        "sglang": SglangDialect(),
    }
    return dialects[kind.name]


def _decode(data: bytes, form: type[Form]) -> Form:
    """Return an event. Raise InvalidEvent for another form, or for an error, whose words may quote the prompt."""
    try:
        event = msgspec.json.decode(data, type=form)
    except (msgspec.DecodeError, ValueError) as error:
        raise InvalidEvent("an event is not of its documented form") from error
    if event.error:
        raise InvalidEvent("an event reports an error, see the engine's log")
    return event


def _by_text(biases: Mapping[int, float]) -> dict[str, float]:
    return {str(token): value for token, value in biases.items()}


def _schema(constraint: OutputConstraint) -> Any:
    return json.loads(constraint.definition) if constraint.definition else ANY_OBJECT


def _structured(constraint: OutputConstraint) -> dict[str, Any]:
    if constraint.kind == "regex":
        return {"regex": constraint.definition}
    return {"json": _schema(constraint)} if constraint.definition else {"json_object": True}


def _with_logprobs(choice: _VllmChoice) -> list[SampledToken]:
    """Return the tokens of a choice of vLLM, whose log probabilities name tokens as "token_id:17"."""
    if choice.logprobs is None:
        return [SampledToken(token) for token in choice.token_ids]
    try:
        values, ranked = choice.logprobs["token_logprobs"], choice.logprobs.get("top_logprobs") or []
        tokens = []
        for index, token in enumerate(choice.token_ids):
            others = (ranked[index] if index < len(ranked) else None) or {}
            top = tuple((int(name.partition(":")[2]), float(value)) for name, value in others.items())
            tokens.append(SampledToken(token, float(values[index]), top))
        return tokens
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise InvalidEvent("log probabilities of an unknown form") from error
