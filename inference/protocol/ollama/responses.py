"""Responses of Ollama's chat, generate and embed. Streams are lines of JSON. Durations are nanoseconds."""

import json
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Annotated, Any

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from inference.engine import FinishReason, GenerationOutput, TokenLogprob, ToolCallDelta, Usage
from inference.protocol.choices import GeneratedChoice
from inference.protocol.errors import error_from_output
from inference.protocol.logprobs import MIN_LOGPROB
from inference.protocol.ollama.requests import OllamaFunctionCall, OllamaToolCall
from inference.protocol.tools import join_tool_call_deltas

CONTENT_TYPE = "application/x-ndjson"

ModelName = Annotated[str, Meta(description="Model of the request.", examples=["stoa-describer"])]
CreatedAt = Annotated[str, Meta(description="Time in ISO 8601.", examples=["2026-11-21T18:05:00.412Z"])]
Done = Annotated[bool, Meta(description="Whether the response is complete.", examples=[True])]


def _duration(of: str) -> Meta:
    return Meta(description=f"Time of {of} in nanoseconds.", examples=[17_000_000])


class OllamaTokenLogprob(Struct):
    """A token with its log probability."""

    token: Annotated[str, Meta(description="Text of the token.", examples=[" steel"])]
    logprob: Annotated[float, Meta(description="Log probability of the token.", examples=[-0.31])]


class OllamaLogprob(OllamaTokenLogprob):
    """A generated token with the most probable tokens in its place."""

    top_logprobs: Annotated[list[OllamaTokenLogprob], Meta(description="Most probable tokens in this place.")]


class Completion(Struct, kw_only=True, omit_defaults=True):
    """The counts and times that the last object of a response has."""

    done_reason: Annotated[
        str | UnsetType, Meta(description="`stop`, `length`, or `load` without a prompt.", examples=["stop"])
    ] = UNSET
    total_duration: Annotated[int | UnsetType, _duration("the request")] = UNSET
    load_duration: Annotated[int | UnsetType, _duration("loading, which is 0")] = UNSET
    prompt_eval_count: Annotated[
        int | UnsetType, Meta(description="Number of tokens of the prompt.", examples=[35])
    ] = UNSET
    prompt_eval_duration: Annotated[int | UnsetType, _duration("the prompt, until the first output")] = UNSET
    eval_count: Annotated[int | UnsetType, Meta(description="Number of generated tokens.", examples=[24])] = UNSET
    eval_duration: Annotated[int | UnsetType, _duration("the generated text")] = UNSET
    logprobs: Annotated[
        list[OllamaLogprob] | UnsetType, Meta(description="Log probabilities of the tokens, if requested.")
    ] = UNSET


class OllamaAnswer(Struct, kw_only=True):
    """The assistant's message, or a piece of it."""

    role: Annotated[str, Meta(description="Always `assistant`.", examples=["assistant"])] = "assistant"
    content: Annotated[str, Meta(description="Text, or further text.", examples=["A quiet kettle."])]
    thinking: Annotated[
        str | UnsetType, Meta(description="Reasoning, or further reasoning.", examples=["A kettle boils water."])
    ] = UNSET
    tool_calls: Annotated[list[OllamaToolCall] | UnsetType, Meta(description="Calls that the model requests.")] = UNSET


class OllamaChatResponse(Completion, kw_only=True):
    """A response, or one line of a stream."""

    model: ModelName
    created_at: CreatedAt
    message: Annotated[OllamaAnswer, Meta(description="Message, or the piece of this line.")]
    done: Done


class OllamaGenerateResponse(Completion, kw_only=True):
    """A response, or one line of a stream."""

    model: ModelName
    created_at: CreatedAt
    response: Annotated[str, Meta(description="Text, or further text.", examples=["A quiet kettle."])]
    thinking: Annotated[
        str | UnsetType, Meta(description="Reasoning, or further reasoning.", examples=["A kettle boils water."])
    ] = UNSET
    done: Done


class OllamaEmbedResponse(Struct, kw_only=True):
    """Vectors in the order of the input."""

    model: ModelName
    embeddings: Annotated[
        list[list[float]], Meta(description="Vectors of length 1.", examples=[[[0.0122, 0.0339, -0.1152]]])
    ]
    total_duration: Annotated[int, _duration("the request")]
    load_duration: Annotated[int, _duration("loading, which is 0")] = 0
    prompt_eval_count: Annotated[int, Meta(description="Number of tokens of the texts.", examples=[6])]


class OllamaResponder:
    """Builds the response of one request, or the lines of its stream. is_chat: a message instead of a text."""

    def __init__(self, model: str, *, is_chat: bool) -> None:
        self._model = model
        self._is_chat = is_chat
        self._started_at = self._first_output_at = time.monotonic_ns()
        self._is_waiting = True
        self._call_deltas: list[ToolCallDelta] = []

    def loaded(self) -> OllamaChatResponse | OllamaGenerateResponse:
        """Return the response to a request without a prompt."""
        return self._build("", done=True, done_reason="load")

    def whole(self, choice: GeneratedChoice, usage: Usage) -> OllamaChatResponse | OllamaGenerateResponse:
        """Return the whole response."""
        return self._build(
            choice.text,
            thinking=choice.reasoning,
            tool_calls=_tool_calls(choice.tool_calls),
            logprobs=choice.logprobs,
            done=True,
            **self._completion(choice.finish_reason, usage),
        )

    def keep_alive(self) -> bytes:
        """Return a line without text, for a client that would take silence for a failure."""
        return _encode(self._build("", done=False))

    def lines(self, output: GenerationOutput) -> Iterator[bytes]:
        """Yield the lines of one output of the engine; a held-back token has none. An error ends the stream."""
        if output.finish_reason in (FinishReason.ERROR, FinishReason.CANCELLED):
            yield _encode({"error": error_from_output(output).message})
            return
        if self._is_waiting:
            self._is_waiting, self._first_output_at = False, time.monotonic_ns()
        self._call_deltas += output.tool_calls
        if output.text or output.reasoning or output.logprobs:
            line = self._build(output.text, thinking=output.reasoning, logprobs=output.logprobs, done=False)
            yield _encode(line)
        if output.finish_reason is not None and output.usage is not None:
            if calls := _tool_calls(self._call_deltas):
                yield _encode(self._build("", tool_calls=calls, done=False))
            yield _encode(self._build("", done=True, **self._completion(output.finish_reason, output.usage)))

    def _completion(self, reason: FinishReason, usage: Usage) -> dict[str, Any]:
        now = time.monotonic_ns()
        return {
            "done_reason": "length" if reason is FinishReason.LENGTH else "stop",
            "total_duration": now - self._started_at,
            "load_duration": 0,
            "prompt_eval_count": usage.prompt_tokens,
            "prompt_eval_duration": self._first_output_at - self._started_at,
            "eval_count": usage.completion_tokens,
            "eval_duration": now - self._first_output_at,
        }

    def _build(
        self,
        text: str,
        *,
        done: bool,
        thinking: str = "",
        tool_calls: list[OllamaToolCall] | None = None,
        logprobs: "list[TokenLogprob] | tuple[TokenLogprob, ...]" = (),
        **completion: Any,
    ) -> OllamaChatResponse | OllamaGenerateResponse:
        created_at = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
        if logprobs:
            completion["logprobs"] = [_logprob(token) for token in logprobs]
        if not self._is_chat:
            completion["thinking"] = thinking or UNSET
            return OllamaGenerateResponse(
                model=self._model, created_at=created_at, response=text, done=done, **completion
            )
        message = OllamaAnswer(content=text, thinking=thinking or UNSET, tool_calls=tool_calls or UNSET)
        return OllamaChatResponse(model=self._model, created_at=created_at, message=message, done=done, **completion)


def _tool_calls(deltas: list[ToolCallDelta]) -> list[OllamaToolCall]:
    """Return the calls whose arguments are complete: `num_predict` may have cut the last one."""
    calls = []
    for call in join_tool_call_deltas(deltas):
        try:
            arguments = json.loads(call.function.arguments)
        except ValueError:
            continue
        calls.append(OllamaToolCall(OllamaFunctionCall(call.function.name, arguments)))
    return calls


def _logprob(token: TokenLogprob) -> OllamaLogprob:
    return OllamaLogprob(
        token.text, _finite(token), [OllamaTokenLogprob(other.text, _finite(other)) for other in token.top]
    )


def _finite(token: TokenLogprob) -> float:
    return MIN_LOGPROB if token.logprob is None else max(token.logprob, MIN_LOGPROB)


def _encode(line: Any) -> bytes:
    return msgspec.json.encode(line) + b"\n"
