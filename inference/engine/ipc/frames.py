"""Frames of the engine's sockets, grouped by sender and receiver.

A client chooses `call` numbers that are unique on its connection; a reply has the number of its call. Tags are part of
the protocol: a renamed class keeps its tag.
"""

from typing import Any

import msgspec

from inference.engine.errors import EngineError
from inference.engine.model_status import EngineStats, LoadOptions, LoadReport, ModelStatus
from inference.engine.outputs import (
    EmbeddingResult,
    FinishReason,
    GenerationOutput,
    ScoringResult,
    TokenizationResult,
    TokenLogprob,
    ToolCallDelta,
    Usage,
)
from inference.engine.prompt_limits import PromptLimits
from inference.engine.requests import EmbeddingRequest, GenerationRequest, ScoringRequest, TokenizationRequest


class Frame(msgspec.Struct, frozen=True, tag=True):
    """Base of all frames. The tag is the class name unless it is set."""


class Hello(Frame, frozen=True):
    """The first frame of both ends. limits: of a model process that generates text."""

    version: int
    limits: PromptLimits | None = None


class ErrorReply(Frame, frozen=True, tag="Failed"):
    """An error as plain data. code: the class name of an EngineError."""

    call: int
    code: str
    message: str
    details: dict[str, Any]


class Acknowledgement(Frame, frozen=True, tag="Done"):
    """The reply to a command without a result."""


# Client to host, one per connection. The comment names the reply, which may be an ErrorReply instead.
class Load(Frame, frozen=True):  # ModelReady
    model_id: str
    path: str
    options: LoadOptions
    revision: int = 0
    background: bool = False
    base: str | None = None  # path of the base model of an adapter


class Use(Frame, frozen=True):  # ModelReady
    model_id: str
    path: str
    options: LoadOptions
    revision: int
    base: str | None = None


class Unload(Frame, frozen=True):  # Acknowledgement
    model_id: str
    force: bool


class ListModels(Frame, frozen=True):  # Models
    pass


class Find(Frame, frozen=True):  # ModelSocket
    model_id: str
    replica: int | None = None  # any that is ready


class StopHost(Frame, frozen=True):  # Acknowledgement
    pass


class Models(Frame, frozen=True):
    models: tuple[ModelStatus, ...]


class ModelSocket(Frame, frozen=True, tag="Found"):
    """The socket of a replica. replicas: that the model has."""

    socket: str
    replicas: int = 1


# Host to model process. Ping is answered by Pong, Retire by RetireReply. Drain ends the process after its running
# requests, Stop cancels them, and Retire ends it only if it has none.
class Ping(Frame, frozen=True):
    pass


class Drain(Frame, frozen=True):
    pass


class Stop(Frame, frozen=True):
    pass


class Retire(Frame, frozen=True):
    pass


# Model process to host.
class Pong(Frame, frozen=True):
    """The model process is alive. cache_bytes: memory that the model's KV cache takes now."""

    cache_bytes: int = 0


class RetireReply(Frame, frozen=True, tag="Retired"):
    is_ending: bool


class Activity(Frame, frozen=True):
    """A process that became busy or idle at `used_at` of time.monotonic(), or finished its first request."""

    busy: bool
    used_at: float
    finished: int


class ModelReady(Frame, frozen=True, tag="Started"):
    report: LoadReport


# Client to model process.
class Generate(Frame, frozen=True):  # GenerationAccepted, then Steps
    call: int
    request: GenerationRequest


class Cancel(Frame, frozen=True):  # no reply
    call: int


class Embed(Frame, frozen=True):  # EmbedReply
    call: int
    request: EmbeddingRequest


class Score(Frame, frozen=True):  # ScoreReply
    call: int
    request: ScoringRequest


class Tokenize(Frame, frozen=True):  # Tokens
    call: int
    request: TokenizationRequest


class Detokenize(Frame, frozen=True):  # Text
    call: int
    ids: tuple[int, ...]


class GetStats(Frame, frozen=True):  # Stats
    call: int


# Model process to client.
class GenerationAccepted(Frame, frozen=True, tag="Accepted"):
    call: int
    prompt_tokens: int


class StepOutput(msgspec.Struct, frozen=True, array_like=True):
    """A GenerationOutput on the wire, with the call number for the request id. The order of fields is the format."""

    call: int
    index: int
    text: str
    choice: int = 0
    logprobs: tuple[TokenLogprob, ...] = ()
    tool_calls: tuple[ToolCallDelta, ...] = ()
    finish_reason: FinishReason | None = None
    usage: Usage | None = None
    error: str | None = None
    error_code: str | None = None
    tokens: int = 1
    stop_sequence: str | None = None
    reasoning: str = ""

    @classmethod
    def of(cls, call: int, output: GenerationOutput) -> "StepOutput":
        return cls(
            call,
            output.index,
            output.text,
            output.choice,
            output.logprobs,
            output.tool_calls,
            output.finish_reason,
            output.usage,
            output.error,
            output.error_code,
            output.tokens,
            output.stop_sequence,
            output.reasoning,
        )

    def output(self, request_id: str) -> GenerationOutput:
        return GenerationOutput(
            request_id=request_id,
            index=self.index,
            text=self.text,
            choice=self.choice,
            logprobs=self.logprobs,
            tool_calls=self.tool_calls,
            finish_reason=self.finish_reason,
            usage=self.usage,
            error=self.error,
            error_code=self.error_code,
            tokens=self.tokens,
            stop_sequence=self.stop_sequence,
            reasoning=self.reasoning,
        )


class DrainNotice(Frame, frozen=True, tag="Draining"):
    """The process accepts no new requests. Its limits are void: the model may be loaded next with others."""


class UnloadNotice(Frame, frozen=True, tag="Leaving"):
    """The model is being unloaded. Calls without a reply were not started."""


class Step(Frame, frozen=True):
    """All outputs of one engine step for one client."""

    outputs: tuple[StepOutput, ...]


class EmbedReply(Frame, frozen=True, tag="Embedded"):
    call: int
    result: EmbeddingResult


class ScoreReply(Frame, frozen=True, tag="Scored"):
    call: int
    result: ScoringResult


class Tokens(Frame, frozen=True):
    call: int
    result: TokenizationResult


class Text(Frame, frozen=True):
    call: int
    text: str


class Stats(Frame, frozen=True):
    call: int
    stats: EngineStats


HostCommand = Load | Use | Unload | ListModels | Find | StopHost
ModelCommand = Generate | Cancel | Embed | Score | Tokenize | Detokenize | GetStats
ModelReply = GenerationAccepted | EmbedReply | ScoreReply | Tokens | Text | Stats
AnyFrame = (
    Hello
    | ErrorReply
    | Acknowledgement
    | HostCommand
    | Models
    | ModelSocket
    | Ping
    | Drain
    | Stop
    | Retire
    | Pong
    | RetireReply
    | Activity
    | ModelReady
    | ModelCommand
    | ModelReply
    | DrainNotice
    | UnloadNotice
    | Step
)


def error_reply(call: int, error: EngineError) -> ErrorReply:
    """Return the frame of an error."""
    return ErrorReply(call, error.code, error.message, error.details)


def error_from(frame: ErrorReply) -> EngineError:
    """Return the error of a frame; a plain EngineError if its class is unknown here."""
    kinds = {kind.__name__: kind for kind in EngineError.__subclasses__()}
    return kinds.get(frame.code, EngineError)(frame.message, **frame.details)
