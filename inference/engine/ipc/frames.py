"""The frames that go over the engine's sockets, by who sends them to whom.

`call` numbers are the client's own, unique on one connection; a reply carries the number of what it answers.
"""

from typing import Any

import msgspec

from inference.engine.errors import EngineError
from inference.engine.model_status import EngineStats, LoadOptions, LoadReport, ModelStatus
from inference.engine.outputs import EmbeddingResult, FinishReason, GenerationOutput, TokenLogprob, ToolCallDelta, Usage
from inference.engine.prompt_limits import PromptLimits
from inference.engine.requests import EmbeddingRequest, GenerationRequest


class Frame(msgspec.Struct, frozen=True, tag=True):
    """Base of all frames; the class name is the tag."""


class Hello(Frame, frozen=True):
    """limits: of a model process that generates text."""

    version: int
    limits: PromptLimits | None = None


class Failed(Frame, frozen=True):
    """Any error, as plain data. `code` is the name of an EngineError."""

    call: int
    code: str
    message: str
    details: dict[str, Any]


class Done(Frame, frozen=True):
    pass


# Client to host, one a connection; answered by the frame named in the comment, or Failed.
class Load(Frame, frozen=True):  # Started
    model_id: str
    path: str
    options: LoadOptions
    revision: int = 0
    background: bool = False


class Use(Frame, frozen=True):  # Started
    model_id: str
    path: str
    options: LoadOptions
    revision: int


class Unload(Frame, frozen=True):  # Done
    model_id: str
    force: bool


class ListModels(Frame, frozen=True):  # Models
    pass


class Find(Frame, frozen=True):  # Found
    model_id: str


class StopHost(Frame, frozen=True):  # Done
    pass


class Models(Frame, frozen=True):
    models: tuple[ModelStatus, ...]


class Found(Frame, frozen=True):
    socket: str


# Host to model process: Ping is answered by Pong, Retire by Retired. Drain finishes what runs, then ends; Stop cancels
# it; Retire ends it only if it works for nobody.
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
    pass


class Retired(Frame, frozen=True):
    is_ending: bool


class Activity(Frame, frozen=True):
    """It has become busy or idle, at `used_at` of time.monotonic(), or finished its first request."""

    busy: bool
    used_at: float
    finished: int


class Started(Frame, frozen=True):
    report: LoadReport


# Client to model process.
class Generate(Frame, frozen=True):  # Accepted, then Steps
    call: int
    request: GenerationRequest


class Cancel(Frame, frozen=True):  # no answer of its own
    call: int


class Embed(Frame, frozen=True):  # Embedded
    call: int
    request: EmbeddingRequest


class Tokenize(Frame, frozen=True):  # Tokens
    call: int
    text: str


class Detokenize(Frame, frozen=True):  # Text
    call: int
    ids: tuple[int, ...]


class GetStats(Frame, frozen=True):  # Stats
    call: int


# Model process to client.
class Accepted(Frame, frozen=True):
    call: int
    prompt_tokens: int


class StepOutput(msgspec.Struct, frozen=True, array_like=True):
    """A GenerationOutput on the wire: the call number stands for the request id. Its order is its form."""

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
        )


class Draining(Frame, frozen=True):
    """It takes nothing new: what its Hello said of limits may not hold where the model is loaded next."""


class Leaving(Frame, frozen=True):
    """The model is being unloaded: it answers nothing more, and what it has not answered it has not begun."""


class Step(Frame, frozen=True):
    """All that one engine step made for one client."""

    outputs: tuple[StepOutput, ...]


class Embedded(Frame, frozen=True):
    call: int
    result: EmbeddingResult


class Tokens(Frame, frozen=True):
    call: int
    ids: tuple[int, ...]


class Text(Frame, frozen=True):
    call: int
    text: str


class Stats(Frame, frozen=True):
    call: int
    stats: EngineStats


HostCommand = Load | Use | Unload | ListModels | Find | StopHost
ModelCommand = Generate | Cancel | Embed | Tokenize | Detokenize | GetStats
ModelReply = Accepted | Embedded | Tokens | Text | Stats
AnyFrame = (
    Hello
    | Failed
    | Done
    | HostCommand
    | Models
    | Found
    | Ping
    | Drain
    | Stop
    | Retire
    | Pong
    | Retired
    | Activity
    | Started
    | ModelCommand
    | ModelReply
    | Draining
    | Leaving
    | Step
)


def failed(call: int, error: EngineError) -> Failed:
    return Failed(call, error.code, error.message, error.details)


def error_from(frame: Failed) -> EngineError:
    """The error that `failed` was made from; one that this side does not know is a plain EngineError."""
    kinds = {kind.__name__: kind for kind in EngineError.__subclasses__()}
    return kinds.get(frame.code, EngineError)(frame.message, **frame.details)
