"""Printing a generation as it is streamed, and its timing."""

import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass, field

import typer

from inference.engine import FinishReason, GenerationOutput, GenerationRequest, GenerationStream, Usage
from inference.generation.services import start_stream
from inference.protocol.errors import error_from_output


@dataclass
class GenerationTiming:
    """Monotonic times of a generation's start, first token and end; `usage` is set at the end."""

    started_at: float = field(default_factory=time.monotonic)
    first_token_at: float = 0.0
    ended_at: float = 0.0
    usage: Usage = field(default_factory=lambda: Usage(0, 0))

    @property
    def time_to_first_token(self) -> float:
        """Seconds."""
        return self.first_token_at - self.started_at

    @property
    def inter_token_latency(self) -> float:
        """Mean seconds between tokens, for two tokens or more."""
        return (self.ended_at - self.first_token_at) / (self.usage.completion_tokens - 1)

    def lines(self) -> list[str]:
        """Return the timing as text, or nothing before the end."""
        if not self.ended_at:
            return []
        duration = self.ended_at - self.started_at
        lines = [
            f"total duration:       {duration:.2f} s",
            f"time to first token:  {self.time_to_first_token:.3f} s",
            f"prompt:               {self.usage.prompt_tokens} tokens, {self.usage.cached_tokens} cached",
            f"output:               {self.usage.completion_tokens} tokens",
        ]
        if duration > 0:
            lines.append(f"rate:                 {self.usage.completion_tokens / duration:.1f} tokens/s")
        return lines


async def record_timing(outputs: GenerationStream, timing: GenerationTiming) -> AsyncIterator[GenerationOutput]:
    """Yield the outputs and record their times. Raise the error that ends the generation."""
    async for output in outputs:
        if output.finish_reason is FinishReason.ERROR:
            raise error_from_output(output)
        timing.first_token_at = timing.first_token_at or time.monotonic()
        timing.usage = output.usage or timing.usage
        yield output
    timing.ended_at = time.monotonic()


async def print_generation(model: str, request: GenerationRequest, *, verbose: bool) -> str:
    """Print and return the text. Raise as `start_stream` does, or the error that ends the generation."""
    timing, text = GenerationTiming(), []
    async with await start_stream(caller=None, model_id=model, request=request) as outputs:
        async for output in record_timing(outputs, timing):
            text.append(output.text)
            sys.stdout.write(_remove_control_characters(output.text))
            sys.stdout.flush()
    sys.stdout.write("\n")
    if verbose:
        typer.echo("\n".join(["", *timing.lines()]), err=True)
    return "".join(text)


def _remove_control_characters(text: str) -> str:
    """Remove characters that control a terminal, if the output is one: a model or a prompt may be malicious."""
    if not sys.stdout.isatty():
        return text
    return "".join(character for character in text if character.isprintable() or character in "\n\t")
