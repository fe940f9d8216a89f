"""Choices of a generation, put together from the engine's outputs."""

from dataclasses import dataclass, field

from inference.engine import FinishReason, GenerationOutput, TokenLogprob, ToolCallDelta


@dataclass
class GeneratedChoice:
    """One choice; `finish_reason` is `error` until the last output was added."""

    index: int
    pieces: list[str] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    tool_calls: list[ToolCallDelta] = field(default_factory=list)
    finish_reason: FinishReason = FinishReason.ERROR

    @property
    def text(self) -> str:
        return "".join(self.pieces)

    def add(self, output: GenerationOutput) -> None:
        self.pieces.append(output.text)
        self.logprobs += output.logprobs
        self.tool_calls += output.tool_calls
        self.finish_reason = output.finish_reason or self.finish_reason
