"""Timeouts of waiting and running requests."""

import math
import time

import pytest

from inference.engine.errors import InvalidRequest
from inference.engine.model_status import LoadOptions
from inference.engine.outputs import FinishReason
from inference.engine.requests import GenerationRequest
from inference.engine.sampling import SamplingParams
from tests.inference.engine.engine_runner import RememberingDecoder, running_engine
from tests.inference.engine.tiny_models import letter_tokenizer

LETTERS = letter_tokenizer()


def asked(name: str, timeout: float | None, prompt: str = "hello", n: int = 1) -> GenerationRequest:
    sampling = SamplingParams(temperature=0)
    return GenerationRequest(request_id=name, prompt=prompt, sampling=sampling, timeout=timeout, n=n)


def test_r7_a_running_request_gets_at_most_one_token_after_its_deadline() -> None:
    decoder = RememberingDecoder(len(LETTERS), pause=0.01)
    with running_engine(decoder, LETTERS) as (engine, collector):
        engine.submit(asked("late", 0.3))
        asked_by = time.monotonic()
        outputs = collector.outputs("late")
        stats = engine.stats()
    last = outputs[-1]
    assert (last.finish_reason, last.error_code, last.text) == (FinishReason.ERROR, "TIMEOUT", "")
    assert last.error is not None
    assert "time limit" in last.error
    assert last.usage is not None
    assert last.usage.completion_tokens == last.index == len(outputs) - 1
    assert sum(at > asked_by + 0.3 for at in collector.times[:-1]) <= 1
    assert (stats.running, stats.waiting) == (0, 0)


def test_r7_a_waiting_request_times_out_and_others_continue() -> None:
    decoder = RememberingDecoder(len(LETTERS), pause=0.005)
    with running_engine(decoder, LETTERS, LoadOptions(max_sequences=1), 100_000) as (engine, collector):
        engine.submit(asked("runs", None))
        engine.submit(asked("late", 0.2))
        (last,) = collector.outputs("late")
        assert (last.finish_reason, last.error_code, last.index) == (FinishReason.ERROR, "TIMEOUT", 0)
        so_far = len(collector.steps)
        collector.wait_for_tokens("runs", so_far + 3)
        engine.cancel("runs")
        assert collector.outputs("runs")[-1].finish_reason is FinishReason.CANCELLED


def test_r7_the_timeout_counts_from_arrival_and_not_from_tokenizing() -> None:
    with running_engine(RememberingDecoder(len(LETTERS), pause=0.01), LETTERS) as (engine, collector):
        engine.submit(asked("late", 60), arrived_at=time.monotonic() - 61)
        (last,) = collector.outputs("late")
    assert (last.finish_reason, last.error_code, last.index) == (FinishReason.ERROR, "TIMEOUT", 0)


def test_r7_all_choices_of_a_late_request_end() -> None:
    decoder = RememberingDecoder(len(LETTERS), pause=0.01)
    with running_engine(decoder, LETTERS, LoadOptions(max_sequences=2)) as (engine, collector):
        engine.submit(asked("late", 0.3, n=3))
        ends = [output for output in collector.outputs("late") if output.finish_reason]
    assert sorted(output.choice for output in ends) == [0, 1, 2]
    assert {output.error_code for output in ends} == {"TIMEOUT"}
    assert [output.usage is None for output in ends] == [True, True, False]


def test_a_request_that_ends_in_time_has_no_timeout_error() -> None:
    decoder = RememberingDecoder(len(LETTERS))
    with running_engine(decoder, LETTERS, context_size=16) as (engine, collector):
        engine.submit(asked("quick", 600.0))
        assert collector.outputs("quick")[-1].finish_reason is FinishReason.LENGTH


@pytest.mark.parametrize("timeout", [0, -1, 600.5, math.nan, math.inf])
def test_i4_a_timeout_out_of_bounds_is_rejected(timeout: float) -> None:
    decoder = RememberingDecoder(len(LETTERS))
    with running_engine(decoder, LETTERS) as (engine, _), pytest.raises(InvalidRequest) as refused:
        engine.submit(asked("one", timeout))
    assert refused.value.details == {"parameter": "timeout"}
