"""Runs an engine inside the test and gathers what it emits."""

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from inference.engine.engine import Engine
from inference.engine.request import GenerationOutput, GenerationRequest, LoadOptions, SamplingParams
from inference.engine.spans import Decoder, Span
from inference.engine.tokenizer import Tokenizer
from tests.inference.engine.tiny_models import END

GREEDY = SamplingParams(temperature=0)
PATIENCE = 20  # seconds; far more than any of this takes


class Collector:
    """`emit` of an engine under test: keeps outputs by request and checks that none comes after the last."""

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._outputs: dict[str, list[GenerationOutput]] = {}
        self.late: list[GenerationOutput] = []
        self.steps: list[list[GenerationOutput]] = []

    def emit(self, outputs: list[GenerationOutput]) -> None:
        with self._news:
            self.steps.append(outputs)
            for output in outputs:
                so_far = self._outputs.setdefault(output.request_id, [])
                if so_far and so_far[-1].finish_reason:
                    self.late.append(output)
                so_far.append(output)
            self._news.notify_all()

    def outputs(self, request_id: str) -> list[GenerationOutput]:
        """All outputs of a request, once it has ended."""
        with self._news:
            ended = self._news.wait_for(lambda: self._ended(request_id), PATIENCE)
            assert ended, f"request {request_id} did not end"
            return self._outputs[request_id]

    def wait_for_tokens(self, request_id: str, count: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: len(self._outputs.get(request_id, [])) >= count, PATIENCE)

    def _ended(self, request_id: str) -> bool:
        return any(output.finish_reason for output in self._outputs.get(request_id, []))

    def text(self, request_id: str) -> str:
        return "".join(output.text for output in self.outputs(request_id))


def ask(name: str, prompt: str, sampling: SamplingParams = GREEDY) -> GenerationRequest:
    return GenerationRequest(request_id=name, prompt=prompt, sampling=sampling)


class ScriptedDecoder:
    """A decoder without a model: whatever the prompt, `script` is the best continuation, over and over."""

    def __init__(self, script: list[int], vocabulary: int, pause: float = 0.0) -> None:
        self._script = script
        self._vocabulary = vocabulary
        self._pause = pause
        self._prompt_tokens: dict[int, int] = {}
        self.fails_at: int | None = None
        self.calls: list[str] = []

    def run(self, spans: Sequence[Span]) -> Tensor:
        time.sleep(self._pause)
        decodes = [span for span in spans if len(span.ids) == 1 and span.start]
        self.calls += [f"decode {len(decodes)}"] * bool(decodes)
        self.calls += [f"prefill {len(span.ids)}" for span in spans if span not in decodes]
        if self.fails_at is not None and len(self.calls) >= self.fails_at:
            self.fails_at = None
            raise RuntimeError("scripted failure")
        self._prompt_tokens.update((span.slot, span.end) for span in spans if span not in decodes)
        wanted = [span for span in spans if span.wanted]
        logits = torch.zeros(len(wanted), self._vocabulary)
        for row, span in enumerate(wanted):
            place = span.end - self._prompt_tokens[span.slot]
            logits[row, self._script[place % len(self._script)]] = 10.0
        return logits

    def copy(self, source: int, target: int, length: int) -> None:
        self.calls.append(f"copy {length}")

    def clear(self) -> None:
        self._prompt_tokens.clear()


@contextmanager
def running_engine(
    decoder: Decoder, tokenizer: PreTrainedTokenizerFast, options: LoadOptions | None = None, context_size: int = 512
) -> Iterator[tuple[Engine, Collector]]:
    collector = Collector()
    engine = Engine(
        decoder=decoder,
        tokenizer=Tokenizer(tokenizer),
        eos_ids=frozenset({END}),
        context_size=context_size,
        options=options or LoadOptions(),
        emit=collector.emit,
    )
    engine.start()
    try:
        yield engine, collector
    finally:
        engine.stop()
        assert collector.late == []
