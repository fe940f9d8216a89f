"""An engine inside the test process, fake decoders, and a collector of outputs."""

import threading
import time
from collections.abc import Callable, Iterator, MutableMapping, Sequence
from contextlib import contextmanager

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerFast

from inference.engine.model_status import LoadOptions
from inference.engine.models.interface import Decoder, TokenSpan
from inference.engine.outputs import GenerationOutput
from inference.engine.requests import GenerationRequest
from inference.engine.sampling import SamplingParams
from inference.engine.scheduling.engine import Engine
from inference.engine.text.tokenizer import Tokenizer
from tests.inference.engine.tiny_models import END, SPECIAL

GREEDY = SamplingParams(temperature=0)
TIMEOUT_SECONDS = 20  # seconds; far more than any of this takes


class Collector:
    """The `emit` of an engine under test. It collects outputs by request, and those after a request's end in `late`.

    steps, times: the outputs of each step, and its time.
    at_token: functions to call in the loop thread when a request gets the token of this index.
    """

    def __init__(self) -> None:
        self._news = threading.Condition()
        self._outputs: dict[str, list[GenerationOutput]] = {}
        self.late: list[GenerationOutput] = []
        self.steps: list[list[GenerationOutput]] = []
        self.times: list[float] = []
        self.at_token: dict[tuple[str, int], Callable[[], object]] = {}

    def emit(self, outputs: list[GenerationOutput]) -> None:
        with self._news:
            self.steps.append(outputs)
            self.times.append(time.monotonic())
            for output in outputs:
                so_far = self._outputs.setdefault(output.request_id, [])
                if any(one.choice == output.choice and one.finish_reason for one in so_far[-100:]):
                    self.late.append(output)
                so_far.append(output)
            self._news.notify_all()
        for output in outputs:
            if act := self.at_token.get((output.request_id, output.index)):
                act()

    def outputs(self, request_id: str) -> list[GenerationOutput]:
        """Return all outputs of a request once it has ended."""
        with self._news:
            ended = self._news.wait_for(lambda: self._ended(request_id), TIMEOUT_SECONDS)
            assert ended, f"request {request_id} did not end"
            return self._outputs[request_id]

    def wait_for_tokens(self, request_id: str, count: int) -> None:
        with self._news:
            assert self._news.wait_for(lambda: len(self._outputs.get(request_id, [])) >= count, TIMEOUT_SECONDS)

    def _ended(self, request_id: str) -> bool:
        return any(output.usage for output in self._outputs.get(request_id, [])[-1:])

    def text(self, request_id: str) -> str:
        return "".join(output.text for output in self.outputs(request_id))


def ask(name: str, prompt: str, sampling: SamplingParams = GREEDY) -> GenerationRequest:
    return GenerationRequest(request_id=name, prompt=prompt, sampling=sampling)


class ScriptedDecoder:
    """A decoder without a model: `script`, repeated, is the best continuation of every prompt."""

    cache_bytes = 0
    threads = 0

    def __init__(self, script: list[int], vocabulary: int, pause: float = 0.0) -> None:
        self._script = script
        self._vocabulary = vocabulary
        self._pause = pause
        # By slot: the end of the prompt, and the position and id of the next token.
        self._prompt_tokens: dict[int, int] = {}
        self._expected: dict[int, tuple[int, int]] = {}
        self.fails_at: int | None = None
        self.calls: list[str] = []

    def run(self, spans: Sequence[TokenSpan]) -> Tensor:
        assert spans, "a step of nothing"
        time.sleep(self._pause)
        decodes = [span for span in spans if self._expected.get(span.slot) == (span.start, span.ids[0])]
        self.calls += [f"decode {len(decodes)}"] * bool(decodes)
        self.calls += [f"prefill {len(span.ids)}" for span in spans if span not in decodes]
        if self.fails_at is not None and len(self.calls) >= self.fails_at:
            self.fails_at = None
            raise RuntimeError("scripted failure")
        self._prompt_tokens.update((span.slot, span.end) for span in spans if span not in decodes)
        rows = [self._row(span, place) for span in spans for place in range(span.end - span.rows, span.end)]
        return torch.stack(rows) if rows else torch.empty(0, self._vocabulary)

    def _row(self, span: TokenSpan, place: int) -> Tensor:
        token = self._script[(place + 1 - self._prompt_tokens[span.slot]) % len(self._script)]
        self._expected[span.slot] = (place + 1, token)
        row = torch.zeros(self._vocabulary)
        row[token] = 10.0
        return row

    def copy_slot_from(self, slot: int, other: "ScriptedDecoder") -> None:
        """Copy the state of a slot from another decoder."""
        self._prompt_tokens[slot], self._expected[slot] = other._prompt_tokens[slot], other._expected[slot]

    def copy(self, source: int, target: int, length: int) -> None:
        self.calls.append(f"copy {length}")

    def clear(self, slot: int | None = None, start: int = 0) -> None:
        for held in (self._prompt_tokens, self._expected):
            _forget(held, slot)


class RememberingDecoder:
    """A decoder whose logits depend only on all ids before them in the slot.

    computed: number of tokens run.
    steps: spans of each step, as (slot, start, tokens).
    copies: in order.
    at_step: functions to call during the step of this number.
    breaks_on: a token after which all logits are NaN.
    """

    cache_bytes = 0
    threads = 0

    def __init__(self, vocabulary: int, pause: float = 0.0) -> None:
        self._vocabulary = vocabulary
        self._pause = pause
        self._held: dict[int, list[int]] = {}
        self.computed = 0
        self.steps: list[list[tuple[int, int, int]]] = []
        self.copies: list[tuple[int, int, int]] = []
        self.at_step: dict[int, Callable[[], object]] = {}
        self.breaks_on: int | None = None

    def run(self, spans: Sequence[TokenSpan]) -> Tensor:
        time.sleep(self._pause)
        assert len({span.slot for span in spans}) == len(spans)
        self.steps.append([(span.slot, span.start, len(span.ids)) for span in spans])
        if act := self.at_step.get(len(self.steps)):
            act()
        rows = [row for span in spans for row in self._run(span)]
        return torch.stack(rows) if rows else torch.empty(0, self._vocabulary)

    def _run(self, span: TokenSpan) -> list[Tensor]:
        held = self._held.setdefault(span.slot, [])
        assert span.start <= len(held), "a gap in the slot"
        held[span.start :] = span.ids
        self.computed += len(span.ids)
        rows = [self.row(held[: place + 1]) for place in range(span.end - span.rows, span.end)]
        return [row * torch.nan for row in rows] if self.breaks_on in held else rows

    def row(self, ids: list[int]) -> Tensor:
        """Return the logits after `ids`. No special token is ever the best."""
        seeded = torch.Generator().manual_seed(hash(tuple(ids)))
        row = torch.randn(self._vocabulary, generator=seeded) * 4
        row[: len(SPECIAL)] = -50.0
        return row

    def greedy(self, ids: list[int], tokens: int) -> list[int]:
        """Return the greedy continuation of `ids`."""
        whole = list(ids)
        for _ in range(tokens):
            whole.append(int(self.row(whole).argmax()))
        return whole[len(ids) :]

    def copy(self, source: int, target: int, length: int) -> None:
        self.copies.append((source, target, length))
        assert length <= len(self._held[source]), "more than the slot holds"
        self._held[target] = self._held[source][:length]

    def clear(self, slot: int | None = None, start: int = 0) -> None:
        if slot is not None and start:
            del self._held[slot][start:]
        else:
            _forget(self._held, slot)


def _forget(held: MutableMapping[int, object], slot: int | None) -> None:
    if slot is None:
        held.clear()
    else:
        held.pop(slot, None)


@contextmanager
def running_engine(
    decoder: Decoder,
    tokenizer: PreTrainedTokenizerFast,
    options: LoadOptions | None = None,
    context_size: int = 512,
    vocabulary: int | None = None,
) -> Iterator[tuple[Engine, Collector]]:
    collector = Collector()
    engine = Engine(
        decoder=decoder,
        tokenizer=Tokenizer(tokenizer),
        eos_ids=frozenset({END}),
        context_size=context_size,
        vocabulary=len(tokenizer) if vocabulary is None else vocabulary,
        options=options or LoadOptions(),
        emit=collector.emit,
    )
    engine.start()
    try:
        yield engine, collector
    finally:
        engine.stop()
        assert collector.late == []
