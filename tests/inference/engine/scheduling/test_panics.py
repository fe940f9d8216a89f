"""Failures beyond Exception: a library that panics in a step, and a loop that cannot continue."""

import os
import threading

import pytest
from tokenizers import decoders
from transformers import PreTrainedTokenizerFast

from inference.engine.outputs import FinishReason
from inference.engine.sampling import SamplingParams
from inference.engine.scheduling.engine import LOOP_FAILED_STATUS
from tests.inference.engine.engine_runner import (
    TIMEOUT_SECONDS,
    RememberingDecoder,
    ScriptedDecoder,
    ask,
    running_engine,
)
from tests.inference.engine.tiny_models import END, USER, letter_tokenizer

LETTERS = letter_tokenizer()


def panicking_tokenizer() -> PreTrainedTokenizerFast:
    """Return a tokenizer that panics when it decodes a token without text."""
    tokenizer = letter_tokenizer()
    tokenizer.backend_tokenizer.decoder = decoders.Sequence([decoders.ByteLevel(), decoders.Strip("x", 0, 1)])
    return tokenizer


def test_m6_a_panic_in_a_step_ends_running_requests_and_the_loop_continues() -> None:
    tokenizer = panicking_tokenizer()
    with running_engine(ScriptedDecoder([20, USER, END], len(tokenizer)), tokenizer) as (engine, collector):
        engine.submit(ask("panics", "hello"))
        last = collector.outputs("panics")[-1]
        engine.submit(ask("short", "hello", SamplingParams(temperature=0, max_tokens=1)))
        assert collector.outputs("short")[-1].finish_reason is FinishReason.LENGTH
    assert (last.finish_reason, last.index) == (FinishReason.ERROR, 2)


def test_m6_a_failed_loop_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dead thread would answer no request; the host restarts a dead process."""
    ended = threading.Event()
    statuses: list[int] = []

    class Failing(RememberingDecoder):
        def clear(self, slot: int | None = None, start: int = 0) -> None:
            raise RuntimeError("the device is lost")

    def end(status: int) -> None:
        statuses.append(status)
        ended.set()

    monkeypatch.setattr(os, "_exit", end)
    decoder = Failing(len(LETTERS))
    decoder.at_step[1] = lambda: 1 / 0
    with running_engine(decoder, LETTERS) as (engine, _):
        engine.submit(ask("one", "hello"))
        assert ended.wait(TIMEOUT_SECONDS)
    assert statuses == [LOOP_FAILED_STATUS]
