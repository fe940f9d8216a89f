"""A generation printed as it comes, and how long it took."""

import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import typer

from inference.engine import FinishReason, GenerationOutput, GenerationRequest, GenerationStream, Usage
from inference.generation.services import stream
from inference.protocol.errors import error_of


@dataclass
class Timing:
    """When a generation began, spoke first and ended (monotonic seconds); `usage` once it has ended."""

    began: float = field(default_factory=time.monotonic)
    first_at: float = 0.0
    ended: float = 0.0
    usage: Usage = field(default_factory=lambda: Usage(0, 0))

    @property
    def to_first(self) -> float:
        """Seconds to the first token."""
        return self.first_at - self.began

    @property
    def between(self) -> float:
        """Seconds from one token to the next, of two or more."""
        return (self.ended - self.first_at) / (self.usage.completion_tokens - 1)

    def lines(self) -> list[str]:
        """For people. Empty while there is nothing to tell."""
        if not self.ended:
            return []
        lines = [
            f"total duration:       {self.ended - self.began:.2f} s",
            f"time to first token:  {self.to_first:.3f} s",
            f"prompt:               {self.usage.prompt_tokens} tokens, {self.usage.cached_tokens} of them cached",
            f"output:               {self.usage.completion_tokens} tokens",
        ]
        if self.ended > self.began:
            lines.append(
                f"rate:                 {self.usage.completion_tokens / (self.ended - self.began):.1f} tokens/s"
            )
        return lines


async def timed(outputs: GenerationStream, timing: Timing) -> AsyncIterator[GenerationOutput]:
    """The outputs, with their times noted. Raises what the generation breaks off with."""
    async for output in outputs:
        if output.finish_reason is FinishReason.ERROR:
            raise error_of(output)
        timing.first_at = timing.first_at or time.monotonic()
        timing.usage = output.usage or timing.usage
        yield output
    timing.ended = time.monotonic()


async def print_generation(model: str, request: GenerationRequest, *, verbose: bool) -> str:
    """Returns the text. Raises as `generation.services.stream` does, also when the generation breaks off."""
    timing, text = Timing(), []
    async with await stream(caller=None, model_id=model, request=request) as outputs:
        async for output in timed(outputs, timing):
            text.append(output.text)
            sys.stdout.write(_shown(output.text))
            sys.stdout.flush()
    sys.stdout.write("\n")
    if verbose:
        typer.echo("\n".join(["", *timing.lines()]), err=True)
    return "".join(text)


def _shown(text: str) -> str:
    """On a terminal, what would steer it is left out: the model, or who wrote the prompt, could mean harm."""
    if not sys.stdout.isatty():
        return text
    return "".join(character for character in text if character.isprintable() or character in "\n\t")
