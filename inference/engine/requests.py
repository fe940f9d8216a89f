"""Requests to the engine: generations, embeddings and scores, as frozen structs that cross the socket as they are."""

from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

from inference.engine.sampling import Bounds, Declaration, Parameter, SamplingParams, declared_parameters


class ToolCall(msgspec.Struct, frozen=True):
    """A function call that the model asks for. `arguments` is the text that the model wrote: JSON unless it was cut."""

    id: str
    name: str
    arguments: str


class Message(msgspec.Struct, frozen=True, omit_defaults=True):
    """One message of a chat. `role` is `system`, `user`, `assistant` or `tool`; `content` is literal text.

    tool_calls: the calls of an assistant message.
    tool_call_id: the id of the call that a `tool` message answers.
    """

    role: str
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


class Tool(msgspec.Struct, frozen=True, omit_defaults=True):
    """A function that the model may call. `parameters` is a JSON schema of its arguments; None means no arguments."""

    name: str
    description: str = ""
    parameters: dict[str, Any] | None = None


class GenerationRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A generation. Exactly one of `prompt` (raw text), `prompt_ids` and `messages` (chat template) is set.

    n: each output has the index of its `choice`.
    echo: the first output of each choice begins with the prompt's text, and with its log probabilities if requested.
    prompt_only: generate no token; only with `echo`.
    tools: functions that the assistant may call.
    tool_choice: `none`, `auto`, `required`, or the name of the tool to call.
    parallel_tool_calls: a choice may have several tool calls.
    template_options: options of the model's chat template by their names there. An unknown one is an error.
    thinking: whether the model reasons first, if its chat template lets one choose; None is the template's default.
    separates_reasoning: reasoning between `<think>` tags is no part of the text but of the outputs' `reasoning`.
    user: the user that the scheduler shares slots between; users never share cached prefixes.
    places: of the queue, that it and the requests sent right after it need: it is refused unless so many are free.
        0: it is one of those, and its user's part of the queue has been checked.
    batch: background work, which runs on capacity that interactive requests leave.
    default_parameters: names of sampling parameters that the client did not set. A remote server may ignore them.
    coalesce_outputs: one output may hold many tokens, as no reader waits for single ones.
    traceparent: the parent span of a traced request (W3C Trace Context).
    """

    request_id: str
    prompt: str | None = None
    prompt_ids: tuple[int, ...] | None = None
    messages: tuple[Message, ...] | None = None
    sampling: SamplingParams = SamplingParams()
    n: Annotated[
        int,
        Declaration(
            description="Number of choices to generate for the same prompt.",
            example=2,
            bounds=Bounds(minimum=1, maximum=8),
        ),
    ] = 1
    echo: bool = False
    prompt_only: bool = False
    tools: tuple[Tool, ...] = ()
    tool_choice: str = "auto"
    parallel_tool_calls: bool = True
    template_options: dict[str, Any] = {}
    thinking: bool | None = None
    separates_reasoning: bool = False
    user: str = ""
    places: int = 1
    batch: bool = False
    priority: Annotated[
        int,
        Declaration(
            description="Scheduling priority: the highest runs first within interactive or batch work.",
            example=5,
            bounds=Bounds(minimum=-10, maximum=10),
        ),
    ] = 0
    timeout: Annotated[
        float | None,
        Declaration(
            description="Seconds until the last token; later the generation ends with error code TIMEOUT.",
            example=30,
            bounds=Bounds(above=0, maximum=600),
        ),
    ] = None
    default_parameters: tuple[str, ...] = msgspec.field(default=(), name="assumed")
    coalesce_outputs: bool = msgspec.field(default=False, name="gathered")
    traceparent: str | None = None


REQUEST_PARAMETERS: Mapping[str, Parameter] = declared_parameters(GenerationRequest)


class TokenizationRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A text, or a conversation with its tools in the model's chat template, to turn into tokens.

    thinking: as in a GenerationRequest.
    add_special_tokens: add the first and last tokens that the tokenizer adds to a text.
    """

    text: str | None = None
    messages: tuple[Message, ...] = ()
    tools: tuple[Tool, ...] = ()
    thinking: bool | None = None
    add_special_tokens: bool = True


class EmbeddingRequest(msgspec.Struct, frozen=True, kw_only=True):
    """Texts to embed, each within the model's context, as text or as token ids that are used unchanged.

    user: users take turns.
    batch: background work, which runs after interactive requests.
    one_core: it leaves the other cores to what else runs on the machine.
    """

    request_id: str
    texts: tuple[str | tuple[int, ...], ...]
    user: str = ""
    batch: bool = False
    one_core: bool = False


class ScoringQuestion(msgspec.Struct, frozen=True, array_like=True):
    """A question about a context, and at least two answers, none of which begins with another."""

    text: str
    answers: tuple[str, ...]


class ScoringRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Texts to score by a classifier, a cross-encoder or an embedding model, or questions to a generating model.

    context: text that a generating model reads before each of `questions`, whose answers are scored.
    queries: none to classify each text alone, one for all texts, or one per text.
    max_text_tokens: each of `texts` is cut to so many tokens, and to the context; None makes a long one an error.
    max_tokens: the input of the model, a text with its query, is cut to so many tokens.
    user: users take turns.
    batch: background work, which runs after interactive requests.
    """

    request_id: str
    texts: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()
    context: str = ""
    questions: tuple[ScoringQuestion, ...] = ()
    max_text_tokens: int | None = None
    max_tokens: int | None = None
    user: str = ""
    batch: bool = False
