"""A generation printed as it comes, and how long it took."""

import sys
import time
from dataclasses import dataclass, field

import typer

from inference.engine import FinishReason, GenerationRequest, Usage
from inference.generation.services import stream
from inference.protocol.errors import error_of


@dataclass
class Timing:
    """When a generation began, spoke first and ended; `usage` once it has ended."""

    began: float = field(default_factory=time.monotonic)
    first_at: float | None = None
    ended: float | None = None
    usage: Usage | None = None

    def lines(self) -> list[str]:
        """For people. Empty while there is nothing to tell."""
        if self.first_at is None or self.ended is None or self.usage is None:
            return []
        written = self.usage.completion_tokens
        lines = [
            f"total duration:       {self.ended - self.began:.2f} s",
            f"time to first token:  {self.first_at - self.began:.3f} s",
            f"prompt:               {self.usage.prompt_tokens} tokens, {self.usage.cached_tokens} of them cached",
            f"output:               {written} tokens",
        ]
        if written > 1 and self.ended > self.first_at:
            lines.append(f"rate:                 {(written - 1) / (self.ended - self.first_at):.1f} tokens/s")
        return lines


async def print_generation(model: str, request: GenerationRequest, *, verbose: bool) -> str:
    """Returns the text. Raises as `generation.services.stream` does, also when the generation breaks off."""
    timing, text = Timing(), []
    async with await stream(caller=None, model_id=model, request=request) as outputs:
        async for output in outputs:
            if output.finish_reason is FinishReason.ERROR:
                raise error_of(output)
            timing.first_at = timing.first_at or time.monotonic()
            text.append(output.text)
            sys.stdout.write(_shown(output.text))
            sys.stdout.flush()
            timing.usage = output.usage
    timing.ended = time.monotonic()
    sys.stdout.write("\n")
    if verbose:
        typer.echo("\n".join(["", *timing.lines()]), err=True)
    return "".join(text)


def _shown(text: str) -> str:
    """On a terminal, what would steer it is left out: the model, or who wrote the prompt, could mean harm."""
    if not sys.stdout.isatty():
        return text
    return "".join(character for character in text if character.isprintable() or character in "\n\t")
