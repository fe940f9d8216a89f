"""Choices of a generation, put together from the engine's outputs."""

from dataclasses import dataclass, field

from inference.engine import FinishReason, GenerationOutput, TokenLogprob, ToolCallDelta


@dataclass
class GeneratedChoice:
    """One choice; `finish_reason` is `error` until the last output was added.

    stop_sequence: the stop sequence that ended it, if one did.
    """

    index: int
    pieces: list[str] = field(default_factory=list)
    reasoning_pieces: list[str] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    tool_calls: list[ToolCallDelta] = field(default_factory=list)
    finish_reason: FinishReason = FinishReason.ERROR
    stop_sequence: str | None = None

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    @property
    def reasoning(self) -> str:
        return "".join(self.reasoning_pieces)

    def add(self, output: GenerationOutput) -> None:
        self.pieces.append(output.text)
        self.reasoning_pieces.append(output.reasoning)
        self.logprobs += output.logprobs
        self.tool_calls += output.tool_calls
        self.finish_reason = output.finish_reason or self.finish_reason
        self.stop_sequence = output.stop_sequence or self.stop_sequence
