"""Stage times of traced requests."""

import time

import pytest
from msgspec.structs import replace

from inference.engine.model_status import LoadOptions
from inference.engine.outputs import RequestTimings
from inference.engine.sampling import SamplingParams
from tests.inference.engine.engine_runner import Collector, ScriptedDecoder, ask, running_engine
from tests.inference.engine.tiny_models import END, letter_tokenizer

LETTERS = letter_tokenizer()
TRACE = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
THREE = SamplingParams(temperature=0, max_tokens=3)


def scripted(pause: float = 0.0) -> ScriptedDecoder:
    return ScriptedDecoder([LETTERS.encode("a")[0], END], len(LETTERS), pause)


def stages(collector: Collector, name: str) -> RequestTimings | None:
    usage = collector.outputs(name)[-1].usage
    assert usage is not None
    return usage.timings


@pytest.mark.parametrize("prompt", ["x", "x" * 40])
def test_a_traced_request_has_the_times_of_its_stages(prompt: str) -> None:
    began = time.monotonic()
    with running_engine(scripted(pause=0.01), LETTERS, LoadOptions(batch_size=16)) as (engine, collector):
        engine.submit(replace(ask("one", prompt, THREE), traceparent=TRACE))
        told = stages(collector, "one")
    assert told is not None
    assert told.scheduled_at is not None
    assert told.prefilled_at is not None
    assert began <= told.arrived_at <= told.scheduled_at < told.prefilled_at <= told.finished_at <= time.monotonic()


def test_a_cached_prompt_has_a_prefill_time() -> None:
    with running_engine(scripted(), LETTERS) as (engine, collector):
        for name in ("one", "again"):
            engine.submit(replace(ask(name, "x" * 40, THREE), traceparent=TRACE))
            collector.outputs(name)
        told = stages(collector, "again")
    assert told is not None
    assert told.prefilled_at is not None


def test_a_request_cancelled_in_the_queue_has_no_start_time() -> None:
    with running_engine(scripted(pause=0.05), LETTERS, LoadOptions(max_sequences=1)) as (engine, collector):
        engine.submit(ask("first", "x" * 8, SamplingParams(temperature=0, ignore_eos=True)))
        collector.wait_for_tokens("first", 1)
        engine.submit(replace(ask("second", "y" * 8), traceparent=TRACE))
        engine.cancel("second")
        told = stages(collector, "second")
        engine.cancel("first")
    assert told is not None
    assert (told.scheduled_at, told.prefilled_at) == (None, None)


def test_an_untraced_request_has_no_timings() -> None:
    with running_engine(scripted(), LETTERS) as (engine, collector):
        engine.submit(ask("one", "x", THREE))
        assert stages(collector, "one") is None
